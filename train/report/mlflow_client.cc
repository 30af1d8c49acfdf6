// MLflow. Every start of a run is a run there, in the experiment of its project. Without MLFLOW_TRACKING_URI it is
// written into the run's directory, for `mlflow ui`: into SQLite, because MLflow has closed its store of plain files.
#include "train/report/report_client.h"

namespace trireme {

// A name there is a path of letters, digits and _-.: of at most 250 bytes, and one call takes 100 parameters or 1000
// metrics; a name or a call beyond that is refused whole.
// Its seven retries of a server that does not answer take four minutes, longer than a run waits for its reporters: four
// take half a minute, and the loss of the server is said.
ReportClient MlflowClient() {
  return {.name = "mlflow", .code = R"(
import os, posixpath, re, sys
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "4")
import mlflow

def start(info):
    kept = "sqlite:///" + os.path.join(info["directory"], "mlflow.db")
    mlflow.set_tracking_uri(os.environ.get("MLFLOW_TRACKING_URI") or kept)
    mlflow.set_experiment(info["project"])
    run = mlflow.start_run(run_name=info["name"])
    for part in parts(info["config"], 100):
        mlflow.log_params(part)
    uri = mlflow.get_tracking_uri()
    where = "mlflow ui --backend-store-uri " + uri if uri == kept else uri
    print("mlflow:", where, "run", run.info.run_id, file=sys.stderr, flush=True)

def parts(values, size):
    items = list(values.items())
    return [dict(items[first:first + size]) for first in range(0, len(items), size)]

def name(tag):
    tag = posixpath.normpath(re.sub(r"[^\w.\- :/]", "_", tag))
    return tag if len(tag) <= 250 else tag[:200] + tag[-50:]

def log(step, values):
    for part in parts({name(tag): value for tag, value in values.items()}, 1000):
        mlflow.log_metrics(part, step=step)

def finish():
    mlflow.end_run()
)"};
}

}  // namespace trireme
