// SwanLab. Every start of a run is an experiment there. Without SWANLAB_MODE and SWANLAB_API_KEY it is written into the
// run's directory, for `swanlab sync`.
#include "train/report/report_client.h"

namespace trireme {

ReportClient SwanlabClient() {
  return {.name = "swanlab", .code = R"(
import os
import swanlab

def start(info):
    mode = os.environ.get("SWANLAB_MODE") or (None if os.environ.get("SWANLAB_API_KEY") else "offline")
    swanlab.init(project=info["project"], experiment_name=info["name"], logdir=os.path.join(info["directory"], "swanlog"),
                 config=info["config"], **({"mode": mode} if mode else {}))

def log(step, values):
    swanlab.log(values, step=step)

def finish():
    swanlab.finish()
)"};
}

}  // namespace trireme
