// What the page gets from the server: JSON, and the columns of a run's log as numbers. Knows nothing of drawing.

export class ApiProblem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let askForKey = async () => false;
// Called where the server wants a key: shows the login, and says whether to try again.
export const onKeyWanted = ask => { askForKey = ask; };

async function request(path, options) {
  for (;;) {
    const answer = await fetch(path, {credentials: 'same-origin', ...options});
    if (answer.ok) return answer;
    if (answer.status === 401 && await askForKey()) continue;
    let message = `${answer.status} ${answer.statusText}`;
    try {
      message = (await answer.json()).error.message;
    } catch {
      // not ours: the status says enough
    }
    throw new ApiProblem(answer.status, message);
  }
}

export const getJson = async path => (await request(path)).json();
export const post = (path, body, more) => request(path, {
  method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body), ...more});
export const postJson = async (path, body) => (await post(path, body)).json();

// One column that grows at its end.
class Column {
  constructor(values) {
    this.values = values;
    this.length = values.length;
  }
  get(row) { return row < this.length ? this.values[row] : NaN; }
  push(row, value) {
    if (row >= this.values.length) {
      const larger = new Float64Array(Math.max(64, row * 2)).fill(NaN);
      larger.set(this.values.subarray(0, this.length));
      this.values = larger;
    }
    for (let i = this.length; i < row; ++i) this.values[i] = NaN;
    this.values[row] = value;
    this.length = row + 1;
  }
}

// The log of a run: columns by name, and how far they go.
export class RunData {
  constructor(id) {
    this.id = id;
    this.clear();
  }
  clear() {
    this.columns = new Map();
    this.rows = 0;
    this.position = '0.0000000000000000';
    this.version = (this.version || 0) + 1;  // tells drawings that what they have is old
  }
  column(name) { return this.columns.get(name); }
  steps() { return this.columns.get('step'); }

  // The row whose step is nearest.
  rowNear(step) {
    const steps = this.steps();
    if (!steps || this.rows === 0) return -1;
    let low = 0, high = this.rows - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps.get(middle) < step) low = middle + 1; else high = middle;
    }
    return low > 0 && step - steps.get(low - 1) <= steps.get(low) - step ? low - 1 : low;
  }

  async load() {
    const bytes = await (await request(`/board/runs/${this.id}/columns`)).arrayBuffer();
    const end = new Uint8Array(bytes).indexOf(10);
    const head = JSON.parse(new TextDecoder().decode(bytes.slice(0, end)));
    this.clear();
    head.names.forEach((name, i) => {
      this.columns.set(name, new Column(new Float64Array(bytes, end + 1 + i * head.rows * 8, head.rows)));
    });
    this.rows = head.rows;
    this.position = head.position;
  }

  // A `step` event; false: it does not continue what is here.
  append(event) {
    if (event.after !== this.position) return false;
    for (const row of event.rows) {
      event.names.forEach((name, i) => {
        if (!this.columns.has(name)) this.columns.set(name, new Column(new Float64Array(0)));
        this.columns.get(name).push(this.rows, row[i] === null ? NaN : row[i]);
      });
      ++this.rows;
    }
    this.position = event.position;
    ++this.version;
    return true;
  }
}
