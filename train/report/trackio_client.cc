// Trackio. Every start of a run is a run there, all in one group. Without TRACKIO_SPACE_ID, TRACKIO_SERVER_URL and
// TRACKIO_DIR it is written into the run's directory, for `trackio show`.
#include "train/report/report_client.h"

namespace trireme {

// The package reads TRACKIO_DIR when it is imported, and then says how to look at its usual directory, which this is
// not.
ReportClient TrackioClient() {
  return {.name = "trackio", .code = R"(
import contextlib, os, sys

def start(info):
    global trackio
    away = os.environ.get("TRACKIO_SPACE_ID") or os.environ.get("TRACKIO_SERVER_URL")
    kept = not away and not os.environ.get("TRACKIO_DIR")
    if kept:
        os.environ["TRACKIO_DIR"] = os.path.join(info["directory"], "trackio")
    import trackio
    with contextlib.redirect_stdout(None) if kept else contextlib.nullcontext():
        trackio.init(project=info["project"], name=info["name"], group=info["name"], config=info["config"])
    if kept:
        print("trackio: TRACKIO_DIR=" + os.environ["TRACKIO_DIR"], "trackio show --project", info["project"], file=sys.stderr,
              flush=True)

def log(step, values):
    trackio.log(values, step=step)

def finish():
    trackio.finish()
)"};
}

}  // namespace trireme
