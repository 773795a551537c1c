#include "common/base/version.h"

namespace libreyolo {

const char* Version() { return LIBREYOLO_VERSION; }
const char* BuildId() { return LIBREYOLO_VERSION "+" LIBREYOLO_COMMIT; }

}  // namespace libreyolo
