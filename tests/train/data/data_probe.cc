// For the parity tests: the rows of a run's training data, one JSON object per line, as any rank would find
// them by index; with a trailing --count, only the numbers of rows and tokens.
#include <iostream>
#include <string>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/config/load.h"
#include "train/data/dataset.h"

int main(int argc, char** argv) {
  using namespace trireme;
  try {
    const bool count = argc > 2 && std::string(argv[2]) == "--count";
    const Config config = LoadConfig(argv[1], {});
    const DataSets data = OpenDataSets(config, {.vocabulary = 1 << 30});
    if (count) {
      int64_t tokens = 0;
      for (int64_t i = 0; i < data.train->size(); ++i) tokens += data.train->Length(i);
      std::cout << JsonLine({{"rows", data.train->size()}, {"tokens", tokens}}) << "\n";
      return 0;
    }
    for (const Rows& rows : {data.train, data.valid}) {
      for (int64_t i = 0; rows && i < rows->size(); ++i) {
        const Row row = rows->Read(i);
        std::cout << JsonLine({{"valid", rows == data.valid},
                               {"input_ids", row.input_ids},
                               {"labels", row.labels},
                               {"starts", row.starts},
                               {"trained", rows->Trained(i)}})
                  << "\n";
      }
    }
    return 0;
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return error.exit_status();
  }
}
