#include "client/cli.h"

int main(int argc, char** argv) { return libreyolo::client::RunCliOnProcess(argc, argv); }
