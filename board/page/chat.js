// A chat with what the server serves: one model, or several side by side that get the same words. Uses the same interface
// as any other client: /v1/models and /v1/chat/completions.
import {Answer, eventsOf} from './answer.js';
import {make, replace} from './dom.js';
import {getJson, post} from './data.js';
import {say} from './words.js';

// Fields of a request: name, kind of number, limits, default; an empty one is not sent.
const SAMPLING = [
  ['temperature', 0, 2, 0.05, '0.7'], ['top_p', 0.01, 1, 0.01, ''], ['top_k', 0, 1000, 1, ''], ['min_p', 0, 1, 0.01, ''],
  ['repetition_penalty', 0.1, 2, 0.05, ''], ['presence_penalty', -2, 2, 0.1, ''], ['frequency_penalty', -2, 2, 0.1, ''],
  ['max_tokens', 1, 1000000, 1, '256'], ['seed', 0, 2 ** 53, 1, '']];

// One model's side of the conversation.
class Side {
  constructor(model) {
    this.model = model;
    this.messages = [];
    this.log = make('div', {class: 'messages'});
    this.element = make('section', {class: 'side card', 'data-model': model}, make('h3', {text: model}), this.log);
  }

  clear() {
    this.messages = [];
    replace(this.log);
  }

  // image: a data: address; null: none.
  async ask(text, image, fields, signal) {
    const parts = image && [{type: 'image_url', image_url: {url: image}}, {type: 'text', text}];
    this.messages.push({role: 'user', content: parts ?? text});
    this.log.append(make('div', {class: 'message user'}, image && make('img', {src: image, alt: say('image')}), make('div', {text})));
    const answer = new Answer();
    this.log.append(answer.element);
    let reason = '', usage = null;
    try {
      const {system, ...rest} = fields;
      const messages = system === '' ? this.messages : [{role: 'system', content: system}, ...this.messages];
      const response = await post('/v1/chat/completions', {model: this.model, messages, stream: true, stream_options: {include_usage: true}, ...rest}, {signal});
      for await (const event of eventsOf(response.body)) {
        if (event.error) throw new Error(event.error.message);
        usage = event.usage ?? usage;
        const choice = event.choices?.[0];
        if (!choice) continue;
        reason = choice.finish_reason ?? reason;
        answer.add(choice);
        this.log.scrollTop = this.log.scrollHeight;
      }
      answer.finish(reason, usage);
    } catch (problem) {
      if (problem.name !== 'AbortError') answer.fail(problem.message);
      else answer.finish(say('stopped'), null);
    }
    if (answer.text === '' && reason === '') this.messages.pop();  // nothing came: the next question does not follow it
    else this.messages.push({role: 'assistant', content: answer.text});
  }
}

export class Chat {
  // seesImages: whether the served model takes them.
  constructor(seesImages) {
    this.sides = [];
    this.image = null;
    this.file = make('input', {type: 'file', id: 'chat-image', accept: 'image/*', class: 'hidden', onchange: () => this.readImage(this.file.files[0])});
    this.thumbnail = make('button', {type: 'button', class: 'quiet thumbnail', id: 'chat-thumbnail', hidden: true, onclick: () => this.setImage(null)});
    this.models = make('fieldset', {class: 'models'});
    this.system = make('textarea', {id: 'chat-system', rows: 2});
    this.inputs = SAMPLING.map(([name, min, max, step, value]) => make('input', {type: 'number', name, id: `chat-${name}`, min, max, step, value}));
    this.logprobs = make('input', {type: 'checkbox', id: 'chat-logprobs'});
    this.logprobs.checked = true;
    this.words = make('textarea', {id: 'chat-words', rows: 2, onkeydown: event => this.key(event)});
    this.send = make('button', {type: 'submit', class: 'primary', id: 'chat-send', 'data-word': 'send'});
    this.stop = make('button', {type: 'button', id: 'chat-stop', disabled: true, 'data-word': 'stop', onclick: () => this.going?.abort()});
    this.clear = make('button', {type: 'button', class: 'quiet', 'data-word': 'clear', onclick: () => { this.going?.abort(); this.sides.forEach(side => side.clear()); }});
    this.body = make('div', {class: 'sides'});
    this.problem = make('p', {class: 'problem', role: 'alert'});
    this.element = make('section', {class: 'panel chat', id: 'panel-chat'},
      make('div', {class: 'chat-main'}, this.problem, this.body,
        make('form', {class: 'ask', onsubmit: event => { event.preventDefault(); this.ask(); }},
          make('label', {class: 'grow'}, make('span', {class: 'hidden', 'data-word': 'your_words'}), this.words), this.thumbnail,
          make('div', {class: 'buttons'}, this.send, this.stop, this.clear, seesImages && make('label', {class: 'file'}, make('span', {'data-word': 'image'}), this.file)))),
      make('aside', {class: 'card settings'}, this.models,
        make('label', {class: 'stacked'}, make('span', {'data-word': 'system'}), this.system),
        ...this.inputs.map(input => make('label', {}, make('code', {text: input.name}), input)),
        make('label', {}, this.logprobs, make('span', {'data-word': 'show_logprobs'}))));
    this.logprobs.onchange = () => this.body.classList.toggle('plain', !this.logprobs.checked);
    this.readModels();
  }

  async readModels() {
    try {
      const models = (await getJson('/v1/models')).data.map(model => model.id);
      replace(this.models, make('legend', {'data-word': 'models', text: say('models')}), ...models.map((name, i) => {
        const box = make('input', {type: 'checkbox', value: name, onchange: () => this.choose()});
        box.checked = i === 0;
        return make('label', {}, box, make('span', {text: name}));
      }));
      this.choose();
    } catch (problem) {
      this.problem.textContent = problem.message;
      setTimeout(() => this.readModels(), 3000);
    }
  }

  // Sides that stay keep their conversation.
  choose() {
    const chosen = [...this.models.querySelectorAll('input:checked')].map(box => box.value);
    this.sides = chosen.map(model => this.sides.find(side => side.model === model) ?? new Side(model));
    this.problem.textContent = '';
    replace(this.body, ...this.sides.map(side => side.element));
  }

  readImage(file) {
    if (!file) return;
    const reader = new FileReader();
    reader.onload = () => this.setImage(reader.result);
    reader.readAsDataURL(file);
  }

  setImage(address) {
    this.image = address;
    this.file.value = '';
    this.thumbnail.hidden = address === null;
    this.thumbnail.title = say('remove_image');
    replace(this.thumbnail, address && make('img', {src: address, alt: say('remove_image')}));
  }

  fields() {
    const fields = {system: this.system.value.trim()};
    for (const input of this.inputs) if (input.value !== '') fields[input.name] = Number(input.value);
    if (this.logprobs.checked) Object.assign(fields, {logprobs: true, top_logprobs: 5});
    return fields;
  }

  key(event) {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.ask();
    }
    if (event.key === 'Escape') this.going?.abort();
  }

  async ask() {
    const text = this.words.value.trim();
    const wrong = this.inputs.find(input => !input.reportValidity());
    if (text === '' || this.going || wrong || this.sides.length === 0) return;
    this.words.value = '';
    const image = this.image;
    this.setImage(null);
    this.going = new AbortController();
    this.send.disabled = true;
    this.stop.disabled = false;
    await Promise.all(this.sides.map(side => side.ask(text, image, this.fields(), this.going.signal)));
    this.going = null;
    this.send.disabled = false;
    this.stop.disabled = true;
    this.words.focus();
  }

  show() { this.words.focus({preventScroll: true}); }
}
