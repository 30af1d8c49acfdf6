#include "parallel/sharding/update_rule.h"

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/sharding/optimizer_names.h"
#include "parallel/sharding/optimizers.h"

namespace trireme {

#define DECLARE(name, update, meaning, ...) void update(const UpdateTensors& tensors, const UpdateNumbers& numbers);
TRIREME_OPTIMIZERS(DECLARE)
#undef DECLARE

UpdateRule UpdateRuleOf(const std::string& optimizer) {
#define LIST(name, update, meaning, ...) \
  if (optimizer == name) return update;
  TRIREME_OPTIMIZERS(LIST)
#undef LIST
  throw InputError("optimizer.name: '", optimizer, "' is not known; wanted one of ", Join(OptimizerNames()));
}

}  // namespace trireme
