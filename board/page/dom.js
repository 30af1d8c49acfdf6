// Small helpers over the DOM. Text enters the page as text only: nothing here parses markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'text') element.textContent = value;
    else if (name === 'value') element.value = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

// make('button', {class: 'primary', onclick: f}, 'Send')
export function make(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function makeSvg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export const find = selector => document.querySelector(selector);

export function replace(element, ...children) {
  element.replaceChildren(...children.filter(child => child !== null && child !== undefined && child !== false));
}

// A note beside the pointer; lines of text.
export function showTip(lines, x, y) {
  const tip = find('#tip');
  replace(tip, ...lines.map(line => make('div', {text: line})));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18}px`;
}

export function hideTip() {
  find('#tip').hidden = true;
}

// At most once a frame, whoever asks how often.
export function onceAFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      work();
    });
  };
}

// The last of several calls, once it has been quiet.
export function later(work, milliseconds) {
  let timer = 0;
  return (...words) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...words), milliseconds);
  };
}

// A canvas as sharp as the screen; drawing units are CSS pixels.
export function sizeCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

export const themeColour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
