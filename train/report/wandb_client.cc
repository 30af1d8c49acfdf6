// Weights & Biases. Every start of a run is a run there, all in one group. Without WANDB_MODE and WANDB_API_KEY it is
// written into the run's directory, for `wandb sync`.
#include "train/report/report_client.h"

namespace trireme {

ReportClient WandbClient() {
  return {.name = "wandb", .code = R"(
import os, sys
os.environ.setdefault("WANDB_SILENT", "true")
import wandb

def start(info):
    global run
    mode = os.environ.get("WANDB_MODE") or ("online" if os.environ.get("WANDB_API_KEY") else "offline")
    run = wandb.init(project=info["project"], name=info["name"], group=info["name"], dir=info["directory"],
                     config=info["config"], mode=mode)
    print("wandb:", run.url if mode == "online" else "wandb sync " + os.path.dirname(run.dir), file=sys.stderr, flush=True)

def log(step, values):
    run.log(values, step=step)

def finish():
    run.finish()
)"};
}

}  // namespace trireme
