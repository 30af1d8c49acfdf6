"""What the peers read when they are imported; imported for its effect, before them. No progress bars, no network, one thread."""
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TRL_EXPERIMENTAL_SILENCE="1", WANDB_DISABLED="true")
