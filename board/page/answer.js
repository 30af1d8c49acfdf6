// One answer of a model as it streams: text piece by piece, each piece with the log-probabilities of its tokens. Text is
// shown as text: whatever a model writes, nothing of it is run.
import {hideTip, make, replace, showTip} from './dom.js';
import {short} from './scales.js';
import {say} from './words.js';

// Server-sent events of a response's body, one after another.
export async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
      const data = text.slice(0, end).split('\n').filter(line => line.startsWith('data: ')).map(line => line.slice(6)).join('\n');
      if (data === '[DONE]') return;
      if (data !== '') yield JSON.parse(data);
    }
  }
}

// Less likely pieces are shaded more.
const shadeOf = logprob => logprob > Math.log(0.9) ? 0 : logprob > Math.log(0.6) ? 1 : logprob > Math.log(0.3) ? 2 : logprob > Math.log(0.1) ? 3 : 4;

export class Answer {
  constructor() {
    this.text = '';
    this.tokens = 0;
    this.content = make('div', {class: 'text', onpointerover: event => this.hover(event), onpointerout: hideTip, onfocusin: event => this.hover(event), onfocusout: hideTip});
    this.note = make('div', {class: 'note'});
    this.element = make('div', {class: 'message assistant going', 'aria-live': 'polite'}, this.content, this.note);
    this.begin = performance.now();
  }

  add(choice) {
    const text = choice.delta?.content ?? '', tokens = choice.logprobs?.content ?? [];
    this.tokens += Math.max(tokens.length, text === '' ? 0 : 1);
    if (text === '') return;
    this.text += text;
    const piece = make('span', {text});
    if (tokens.length > 0) {
      piece.tokens = tokens;
      piece.className = `token shade-${shadeOf(Math.min(...tokens.map(token => token.logprob)))}`;
      piece.tabIndex = -1;
    }
    this.content.append(piece);
  }

  hover(event) {
    const tokens = event.target.tokens;
    if (!tokens) return;
    const lines = tokens.flatMap(token => [
      `${JSON.stringify(token.token)}  ${short(Math.exp(token.logprob) * 100)} %  (${token.logprob.toFixed(3)})`,
      ...(token.top_logprobs ?? []).filter(other => other.token !== token.token).map(other => `    ${JSON.stringify(other.token)}  ${short(Math.exp(other.logprob) * 100)} %`)]);
    const box = event.target.getBoundingClientRect();
    showTip(lines, event.clientX || box.left, event.clientY || box.bottom);
  }

  finish(reason, usage) {
    this.element.classList.remove('going');
    const seconds = (performance.now() - this.begin) / 1000, tokens = usage?.completion_tokens ?? this.tokens;
    replace(this.note, `${tokens} ${say('tokens')} · ${short(tokens / seconds)} ${say('per_second')} · ${reason}`);
  }

  fail(message) {
    this.element.classList.remove('going');
    this.element.classList.add('failed');
    replace(this.note, message);
  }
}
