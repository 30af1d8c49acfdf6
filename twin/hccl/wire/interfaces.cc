// Selects the address, with errors as HCCL reports them.
#include "twin/hccl/wire/interfaces.h"

#include "twin/hccl/failure.h"

namespace twin {

std::string ChooseAddress(const Settings& settings, const std::vector<Interface>& interfaces) {
  try {
    return net::ChooseAddress({settings.interface_address, settings.interface_names, settings.one_host}, interfaces);
  } catch (const net::NoInterface& failure) {
    throw HcclFailure(settings.interface_address.empty() ? HCCL_E_NOT_FOUND : HCCL_E_PARA, failure.what());
  }
}

}  // namespace twin
