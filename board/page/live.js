// Live: follows the logs of the runs that are shown, through one connection. Each event says after which position its rows
// come: what fits is appended, anything else makes the run's columns be read again. So nothing is missed or doubled,
// whatever happens to the connection, the server or the log.

export class Live {
  // data: RunData by id. changed(id), runsChanged(), said(state) are called as things happen.
  constructor({data, changed, runsChanged, said}) {
    Object.assign(this, {data, changed, runsChanged, said, source: null, reading: new Map(), retry: 0});
  }

  follow(ids) {
    this.ids = ids;
    this.close();
    if (ids.length === 0) {
      this.connect('');
      return;
    }
    Promise.all(ids.map(id => this.read(id))).then(() => {
      if (this.ids !== ids) return;  // others were chosen meanwhile
      this.connect(ids.map(id => `${id}@${this.data.get(id).position}`).join(','));
    });
  }

  close() {
    clearTimeout(this.retry);
    if (this.source) this.source.close();
    this.source = null;
  }

  connect(at) {
    this.close();
    const source = new EventSource(`/board/events?at=${encodeURIComponent(at)}`);
    this.source = source;
    source.onopen = () => this.said('live');
    source.onerror = () => {
      this.said('broken');
      if (source.readyState !== EventSource.CLOSED) return;  // the browser tries again itself
      this.retry = setTimeout(() => { this.runsChanged(); this.follow(this.ids); }, 3000);
    };
    source.addEventListener('step', event => this.step(JSON.parse(event.data)));
    source.addEventListener('reset', event => this.read(JSON.parse(event.data).run));
    source.addEventListener('runs', () => this.runsChanged());
  }

  step(event) {
    const run = this.data.get(event.run);
    if (!run) return;
    if (this.reading.has(event.run) || !run.append(event)) this.read(event.run);
    else this.changed(event.run);
  }

  // The whole log; asked for again meanwhile, it is read once more afterwards.
  read(id) {
    const going = this.reading.get(id);
    if (going) {
      going.again = true;
      return going.done;
    }
    const entry = {again: false};
    this.reading.set(id, entry);
    entry.done = this.readNow(id, entry).finally(() => {
      this.reading.delete(id);
      this.changed(id);
    });
    return entry.done;
  }

  async readNow(id, entry) {
    for (let wait = 100; ; wait = Math.min(wait * 2, 3000)) {
      entry.again = false;
      try {
        await this.data.get(id).load();
        if (!entry.again) return;
      } catch (problem) {
        if (problem.status === 404 || problem.status === 401) return;  // the run is gone, or the login was refused
        await new Promise(done => setTimeout(done, wait));  // the log is being read, or the server starts
      }
    }
  }
}
