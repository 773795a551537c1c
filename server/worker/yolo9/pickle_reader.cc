#include "server/worker/yolo9/pickle_reader.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/worker/yolo9/pickle_objects.h"

namespace libreyolo::yolo9 {
namespace {

constexpr size_t kMaxGlobalBytes = 256;

// A value under construction. Once it is part of another one it may not change: so there are no
// cycles, and depths stay true.
struct Node : PickleValue {
  int depth = 0;
  bool frozen = false;
};
using NodeRef = std::shared_ptr<Node>;

class Machine {
 public:
  Machine(absl::string_view bytes, const PickleLimits& limits) : bytes_(bytes), limits_(limits) {}

  absl::StatusOr<Pickle> Run() {
    absl::Status status = RunToStop();
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(status.message(), " (pickle byte ",
                                                     std::min(operation_at_, bytes_.size()), ")"));
    }
    return Pickle{std::move(result_), std::move(storages_), at_};
  }

 private:
  static absl::Status Bad(absl::string_view what) { return absl::InvalidArgumentError(what); }

  absl::Status Take(size_t count, const char*& out) {
    if (bytes_.size() - at_ < count) return Bad("the pickle ends early");
    out = bytes_.data() + at_;
    at_ += count;
    return absl::OkStatus();
  }

  template <typename T>  // little-endian, like every machine we run on
  absl::Status Number(T& out) {
    const char* raw = nullptr;
    LY_RETURN_IF_ERROR(Take(sizeof(T), raw));
    std::memcpy(&out, raw, sizeof(T));
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status PushNumber() {
    T value;
    LY_RETURN_IF_ERROR(Number(value));
    return Push(static_cast<int64_t>(value));
  }

  template <typename T>
  absl::Status Push(T value) {
    auto node = std::make_shared<Node>();
    node->data = std::move(value);
    stack_.push_back(std::move(node));
    return absl::OkStatus();
  }

  absl::Status Pop(NodeRef& out) {
    if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back())) {
      return Bad("the pickle takes from an empty stack");
    }
    out = std::move(stack_.back());
    stack_.pop_back();
    return absl::OkStatus();
  }

  absl::Status Top(Node*& out) {
    if (stack_.empty()) return Bad("the pickle takes from an empty stack");
    out = stack_.back().get();
    return absl::OkStatus();
  }

  absl::Status PopMark(size_t& out) {
    if (marks_.empty()) return Bad("the pickle closes a group that was not opened");
    out = marks_.back();
    marks_.pop_back();
    return absl::OkStatus();
  }

  absl::Status Adopt(Node& parent, Node& child) {
    if (parent.frozen) return Bad("a container is changed after its use");
    if (&parent == &child) return Bad("a container holds itself");
    child.frozen = true;
    parent.depth = std::max(parent.depth, child.depth + 1);
    if (parent.depth > limits_.depth) return Bad("containers are nested too deeply");
    return absl::OkStatus();
  }

  absl::Status SetItem(Node& dict, NodeRef key, NodeRef value) {
    auto* items = std::get_if<PickleDict>(&dict.data);
    if (items == nullptr) return Bad("an item is set on something that is no dict");
    if (!key->As<std::string>() && !key->As<int64_t>()) {
      return Bad("a dict key is neither text nor an integer");
    }
    LY_RETURN_IF_ERROR(Adopt(dict, *value));
    items->items.emplace_back(std::move(key), std::move(value));
    return absl::OkStatus();
  }

  absl::Status Append(Node& list, NodeRef value) {
    auto* items = std::get_if<PickleList>(&list.data);
    if (items == nullptr || items->is_tuple) {
      return Bad("an item is appended to something that is no list");
    }
    LY_RETURN_IF_ERROR(Adopt(list, *value));
    items->items.push_back(std::move(value));
    return absl::OkStatus();
  }

  // Everything above stack position `from` becomes one tuple.
  absl::Status MakeTuple(size_t from) {
    if (from > stack_.size()) return Bad("the pickle takes from an empty stack");
    PickleList tuple;
    tuple.is_tuple = true;
    auto node = std::make_shared<Node>();
    for (size_t i = from; i < stack_.size(); ++i) {
      LY_RETURN_IF_ERROR(Adopt(*node, *stack_[i]));
      tuple.items.push_back(std::move(stack_[i]));
    }
    stack_.resize(from);
    node->data = std::move(tuple);
    stack_.push_back(std::move(node));
    return absl::OkStatus();
  }

  absl::Status SetItems() {
    size_t mark = 0;
    LY_RETURN_IF_ERROR(PopMark(mark));
    if (mark == 0 || mark > stack_.size() || (stack_.size() - mark) % 2 != 0) {
      return Bad("a dict's items do not come in pairs");
    }
    Node& dict = *stack_[mark - 1];
    for (size_t i = mark; i < stack_.size(); i += 2) {
      LY_RETURN_IF_ERROR(SetItem(dict, std::move(stack_[i]), std::move(stack_[i + 1])));
    }
    stack_.resize(mark);
    return absl::OkStatus();
  }

  absl::Status Appends() {
    size_t mark = 0;
    LY_RETURN_IF_ERROR(PopMark(mark));
    if (mark == 0 || mark > stack_.size()) return Bad("a list's items have no list");
    Node& list = *stack_[mark - 1];
    for (size_t i = mark; i < stack_.size(); ++i) {
      LY_RETURN_IF_ERROR(Append(list, std::move(stack_[i])));
    }
    stack_.resize(mark);
    return absl::OkStatus();
  }

  absl::Status PushText() {
    uint32_t length = 0;
    const char* raw = nullptr;
    LY_RETURN_IF_ERROR(Number(length));
    if (length > limits_.text_bytes) return Bad("a text is longer than the limit");
    LY_RETURN_IF_ERROR(Take(length, raw));
    return Push(std::string(raw, length));
  }

  absl::Status PushLong() {
    uint8_t length = 0;
    const char* raw = nullptr;
    LY_RETURN_IF_ERROR(Number(length));
    LY_RETURN_IF_ERROR(Take(length, raw));
    const bool negative = length > 0 && (raw[length - 1] & 0x80) != 0;
    if (length <= 8) {
      uint64_t value = negative ? ~uint64_t{0} : 0;
      std::memcpy(&value, raw, length);
      return Push(static_cast<int64_t>(value));
    }
    // Wider than any number a model needs (a random generator's state may hold one): near enough as
    // a double.
    double value = negative ? -1 : 0;
    for (int i = length - 1; i >= 0; --i) {
      value = value * 256 + static_cast<double>(static_cast<uint8_t>(raw[i]));
    }
    return Push(value);
  }

  absl::Status PushDouble() {
    uint64_t bits = 0;
    LY_RETURN_IF_ERROR(Number(bits));
    bits = __builtin_bswap64(bits);  // the one big-endian field
    double value;
    std::memcpy(&value, &bits, sizeof(value));
    return Push(value);
  }

  absl::Status Line(std::string& out) {
    const absl::string_view rest = bytes_.substr(at_, kMaxGlobalBytes);
    const size_t end = rest.find('\n');
    if (end == absl::string_view::npos) return Bad("a name is too long or not closed");
    out = std::string(rest.substr(0, end));
    at_ += end + 1;
    return absl::OkStatus();
  }

  absl::Status PushGlobal() {
    std::string module, name;
    LY_RETURN_IF_ERROR(Line(module));
    LY_RETURN_IF_ERROR(Line(name));
    const std::string full = absl::StrCat(module, ".", name);
    if (!IsAllowedGlobal(full)) {
      return Bad(absl::StrCat("it asks for \"", absl::CHexEscape(full),
                              "\", which plain weights do not need; it was not executed"));
    }
    return Push(PickleGlobal{full});
  }

  // Remembers the storage that the tuple on the stack describes, and pushes a reference to it.
  absl::Status PersistentId() {
    NodeRef id;
    LY_RETURN_IF_ERROR(Pop(id));
    LY_ASSIGN_OR_RETURN(PickleStorage storage, ReadStorageId(*id));
    const auto [it, is_new] = storage_of_key_.try_emplace(storage.key, storages_.size());
    if (is_new) {
      storages_.push_back(std::move(storage));
    } else if (storages_[it->second].type != storage.type ||
               storages_[it->second].element_count != storage.element_count) {
      return Bad(
          absl::StrCat("storage \"", absl::CHexEscape(storage.key), "\" is described in two ways"));
    }
    return Push(PickleStorageRef{it->second});
  }

  absl::Status Reduce() {
    NodeRef arguments, callable;
    LY_RETURN_IF_ERROR(Pop(arguments));
    LY_RETURN_IF_ERROR(Pop(callable));
    LY_ASSIGN_OR_RETURN(PickleValue value, CallGlobal(*callable, *arguments, storages_));
    return Push(std::move(value.data));
  }

  // The state of an OrderedDict (_metadata) is not needed; state for anything else is refused.
  absl::Status Build() {
    NodeRef state;
    Node* target = nullptr;
    LY_RETURN_IF_ERROR(Pop(state));
    LY_RETURN_IF_ERROR(Top(target));
    if (!target->As<PickleDict>()) return Bad("state is set on something that is no dict");
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status Remember() {
    T slot;
    Node* top = nullptr;
    LY_RETURN_IF_ERROR(Number(slot));
    LY_RETURN_IF_ERROR(Top(top));
    memo_[slot] = stack_.back();
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status Recall() {
    T slot;
    LY_RETURN_IF_ERROR(Number(slot));
    const auto it = memo_.find(slot);
    if (it == memo_.end()) return Bad("the pickle recalls what it never remembered");
    stack_.push_back(it->second);
    return absl::OkStatus();
  }

  absl::Status RunToStop() {
    uint8_t opcode = 0, protocol = 0;
    LY_RETURN_IF_ERROR(Number(opcode));
    LY_RETURN_IF_ERROR(Number(protocol));
    if (opcode != 0x80) return Bad("this is no pickle");
    if (protocol != 2) {
      return Bad(
          absl::StrCat("the pickle has protocol ", protocol, "; torch.save writes protocol 2"));
    }
    for (int64_t operations = 0; operations < limits_.operations; ++operations) {
      operation_at_ = at_;
      LY_RETURN_IF_ERROR(Number(opcode));
      if (opcode == '.') {
        NodeRef root;
        LY_RETURN_IF_ERROR(Pop(root));
        result_ = std::move(root);
        return absl::OkStatus();
      }
      LY_RETURN_IF_ERROR(Execute(opcode));
    }
    return Bad("the pickle has more operations than the limit");
  }

  absl::Status Execute(uint8_t opcode);

  absl::string_view bytes_;
  const PickleLimits limits_;
  size_t at_ = 0;
  size_t operation_at_ = 0;
  std::vector<NodeRef> stack_;
  std::vector<size_t> marks_;  // stack sizes
  std::unordered_map<uint32_t, NodeRef> memo_;
  std::vector<PickleStorage> storages_;
  std::unordered_map<std::string, size_t> storage_of_key_;
  PickleRef result_;
};

absl::Status Machine::Execute(uint8_t opcode) {
  switch (opcode) {
    case '}':
      return Push(PickleDict{});
    case ']':
      return Push(PickleList{});
    case ')':
      return Push(PickleList{{}, true});
    case '(':
      marks_.push_back(stack_.size());
      return absl::OkStatus();
    case 'N':
      return Push(PickleNone{});
    case 0x88:
      return Push(true);
    case 0x89:
      return Push(false);
    case 'K':
      return PushNumber<uint8_t>();
    case 'M':
      return PushNumber<uint16_t>();
    case 'J':
      return PushNumber<int32_t>();
    case 0x8a:
      return PushLong();
    case 'G':
      return PushDouble();
    case 'X':
      return PushText();
    case 'c':
      return PushGlobal();
    case 'Q':
      return PersistentId();
    case 'R':
      return Reduce();
    case 'b':
      return Build();
    case 'q':
      return Remember<uint8_t>();
    case 'r':
      return Remember<uint32_t>();
    case 'h':
      return Recall<uint8_t>();
    case 'j':
      return Recall<uint32_t>();
    case 'u':
      return SetItems();
    case 'e':
      return Appends();
    case 0x85:
    case 0x86:
    case 0x87: {
      const size_t count = opcode - 0x84u;
      if (stack_.size() < count) return Bad("the pickle takes from an empty stack");
      return MakeTuple(stack_.size() - count);
    }
    case 't': {
      size_t mark = 0;
      LY_RETURN_IF_ERROR(PopMark(mark));
      return MakeTuple(mark);
    }
    case 's': {
      NodeRef value, key;
      Node* dict = nullptr;
      LY_RETURN_IF_ERROR(Pop(value));
      LY_RETURN_IF_ERROR(Pop(key));
      LY_RETURN_IF_ERROR(Top(dict));
      return SetItem(*dict, std::move(key), std::move(value));
    }
    case 'a': {
      NodeRef value;
      Node* list = nullptr;
      LY_RETURN_IF_ERROR(Pop(value));
      LY_RETURN_IF_ERROR(Top(list));
      return Append(*list, std::move(value));
    }
    default:
      return Bad(absl::StrCat("pickle opcode ", static_cast<int>(opcode),
                              " is not one that plain weights need"));
  }
}

}  // namespace

const PickleValue* PickleDict::Find(absl::string_view key) const {
  for (auto it = items.rbegin(); it != items.rend(); ++it) {
    const auto* text = it->first->As<std::string>();
    if (text != nullptr && key == *text) return it->second.get();
  }
  return nullptr;
}

absl::StatusOr<Pickle> ReadPickle(absl::string_view bytes, const PickleLimits& limits) {
  return Machine(bytes, limits).Run();
}

}  // namespace libreyolo::yolo9
