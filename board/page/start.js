// A form that starts a run. Its fields are the schema's; what is left as it is keeps its default. The file and the command
// are shown before anything happens.
import {later, make, replace} from './dom.js';
import {getJson, postJson} from './data.js';
import {say} from './words.js';

const GOES = run => run.state === 'running' || run.state === 'stopping';
const OPEN = ['', 'model', 'data', 'tuning', 'run'];  // sections that most runs set

export class Start {
  constructor() {
    this.values = new Map();
    this.cards = new Map();  // of runs that were started here
    this.previewSoon = later(() => this.preview(), 250);
    this.folder = make('select', {id: 'start-folder', onchange: () => this.previewSoon()});
    this.name = make('input', {id: 'start-name', required: true, placeholder: 'my-run', oninput: () => this.previewSoon()});
    this.ranks = make('input', {id: 'start-ranks', type: 'number', min: 1, step: 1, value: 1, oninput: () => this.previewSoon()});
    this.filter = make('input', {type: 'search', id: 'start-filter', oninput: () => this.narrow()});
    this.sections = make('div', {class: 'sections'});
    this.yaml = make('pre', {id: 'start-yaml'});
    this.command = make('pre', {id: 'start-command'});
    this.problems = make('ul', {class: 'problem', id: 'start-problems', role: 'alert'});
    this.button = make('button', {type: 'button', class: 'primary', id: 'start-button', disabled: true, 'data-word': 'start_button', onclick: () => this.start()});
    this.started = make('div', {id: 'started'});
    this.element = make('section', {class: 'panel start', id: 'panel-start'},
      make('div', {}, make('h2', {'data-word': 'start_title'}),
        make('div', {class: 'card toolbar'}, this.labelled('start_folder', this.folder), this.labelled('start_name', this.name),
          this.labelled('start_ranks', this.ranks), this.labelled('search', this.filter)), this.sections),
      make('aside', {}, make('div', {class: 'card'}, make('h3', {'data-word': 'start_yaml'}), this.yaml, make('h3', {'data-word': 'start_command'}),
        this.command, this.problems, this.button), this.started));
  }

  labelled(word, input) { return make('label', {}, make('span', {'data-word': word, text: say(word)}), input); }

  async show() {
    if (!this.made) {
      this.made = true;
      const {sections} = await getJson('/board/schema');
      replace(this.sections, ...sections.filter(section => section.keys.length > 0).map(section => this.section(section)));
    }
    this.preview();
    this.watch();
  }

  section({section, comment, keys}) {
    return make('details', {class: 'card', open: OPEN.includes(section), 'data-section': section}, make('summary', {}, make('b', {text: section || say('start_general')}), ' ', make('small', {text: comment})),
      ...keys.filter(({key}) => key !== 'run.output').map(key => this.field(key)));
  }

  field({key, type, wanted, default: initial, comment, scope, choices}) {
    const set = text => {
      if (text === '') this.values.delete(key); else this.values.set(key, text);
      row.classList.toggle('set', text !== '');
      this.previewSoon();
    };
    const options = type === 'switch' ? ['true', 'false'] : choices.length > 0 && type !== 'list' ? choices.map(choice => choice.name) : null;
    const input = options
      ? make('select', {name: key, onchange: event => set(event.target.value)}, make('option', {value: '', text: initial}),
        ...options.filter(name => name !== initial).map(name => make('option', {value: name, text: name, title: choices.find(choice => choice.name === name)?.comment})))
      : make('input', {name: key, placeholder: initial, title: wanted, inputmode: type === 'integer' ? 'numeric' : type === 'number' ? 'decimal' : null, oninput: event => set(event.target.value)});
    const row = make('label', {class: 'field', 'data-key': key}, make('code', {text: key}), input, make('small', {text: `${comment} ${scope}`}));
    return row;
  }

  narrow() {
    const word = this.filter.value.toLowerCase();
    for (const section of this.sections.children) {
      const fields = [...section.querySelectorAll('.field')];
      fields.forEach(field => { field.hidden = !field.textContent.toLowerCase().includes(word); });
      section.hidden = fields.every(field => field.hidden);
      if (word !== '') section.open = true;
    }
  }

  form() {
    return {folder: this.folder.value, name: this.name.value.trim(), ranks: Number(this.ranks.value), set: Object.fromEntries(this.values)};
  }

  async preview() {
    const plan = await postJson('/board/start/preview', this.form());
    if (this.folder.options.length === 0 && plan.folders.length > 0) {
      replace(this.folder, ...plan.folders.map(folder => make('option', {value: folder, text: folder})));
      return this.preview();
    }
    this.yaml.textContent = plan.yaml === '' ? '' : `# ${plan.file}\n${plan.yaml}`;
    this.command.textContent = plan.command;
    const named = this.name.value.trim() !== '';  // without a name there is nothing to complain about yet
    replace(this.problems, ...(named ? plan.problems : []).map(text => make('li', {text})));
    this.button.disabled = plan.problems.length > 0;
  }

  async start() {
    this.button.disabled = true;
    try {
      await postJson('/board/start', this.form());
    } catch (problem) {
      replace(this.problems, make('li', {text: problem.message}));
      return;
    }
    this.name.value = '';  // it is taken now, by this run
    this.preview();
    this.watch();
  }

  async stop(directory) {
    try {
      await postJson('/board/stop', {directory});
    } catch (problem) {
      replace(this.problems, make('li', {text: problem.message}));
    }
    this.watch();
  }

  // What the started ones print, as long as one of them runs and someone looks.
  async watch() {
    clearTimeout(this.timer);
    const {runs} = await getJson('/board/started');
    const cards = runs.map(run => this.cards.get(run.directory) ?? this.card(run));
    this.cards = new Map(runs.map((run, i) => [run.directory, cards[i]]));
    if (cards.some((card, i) => card.element !== this.started.children[i])) replace(this.started, ...cards.map(card => card.element));
    runs.forEach((run, i) => this.fill(cards[i], run));
    if (!this.element.hidden && runs.some(GOES)) this.timer = setTimeout(() => this.watch(), 1000);
  }

  // A card stays where it is while its run goes on, so that a click is never lost.
  card({name, directory}) {
    const state = make('span', {}), output = make('pre', {class: 'output'}), button = make('button', {type: 'button', 'data-stop': name, onclick: () => this.stop(directory)});
    return {element: make('div', {class: 'card', 'data-started': name}, make('h3', {}, name, ' ', state), output, button), state, output, button};
  }

  fill({state, output, button}, run) {
    state.className = `state ${run.state}`;
    state.textContent = say(`state_${run.state}`);
    if (output.textContent !== run.text) output.textContent = run.text;
    button.hidden = !GOES(run);
    button.textContent = run.state === 'stopping' ? say('stop_now') : say('stop_run');
  }
}
