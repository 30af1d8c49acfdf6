// The page's start: asks what the server offers, makes the panels for it, and joins them. Each panel is a module.
import {Chat} from './chat.js';
import {Configuration} from './configuration.js';
import {Curves} from './curves.js';
import {find, later, make, replace} from './dom.js';
import {ApiProblem, RunData, getJson, onKeyWanted} from './data.js';
import {Experts} from './experts.js';
import {Live} from './live.js';
import {Remote} from './remote.js';
import {Runs} from './runs.js';
import {Samples} from './samples.js';
import {Start} from './start.js';
import {Timeline} from './timeline.js';
import {applyWords, language, otherLanguage, say, setLanguage} from './words.js';

const panels = new Map();  // by name: {tab, panel}
const data = new Map();    // RunData by run's id
let runs, curves, live;

// Login ---------------------------------------------------------------------------------------------------------------

let asking = null;  // one login for all that wait for it
function askForKey() {
  asking ??= new Promise(done => {
    const dialog = find('#login'), key = find('#login-key');
    dialog.showModal();
    dialog.querySelector('form').onsubmit = async event => {
      event.preventDefault();
      const answer = await fetch('/board/login', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify({key: key.value})});
      key.value = '';
      find('#login-problem').textContent = answer.ok ? '' : say('login_wrong');
      if (!answer.ok) return;
      dialog.close();
      done(true);
    };
    dialog.oncancel = event => event.preventDefault();
  }).finally(() => { asking = null; });
  return asking;
}
onKeyWanted(askForKey);

// Tabs ----------------------------------------------------------------------------------------------------------------

function addPanel(name, panel) {
  const tab = make('a', {role: 'tab', href: `#${name}`, id: `tab-${name}`, 'aria-controls': panel.element.id, 'data-word': `tab_${name}`});
  panels.set(name, {tab, panel});
  find('#tabs').append(tab);
  find('#panels').append(panel.element);
}

function showTab() {
  const wanted = location.hash.slice(1), name = panels.has(wanted) ? wanted : panels.keys().next().value;
  for (const [each, {tab, panel}] of panels) {
    tab.setAttribute('aria-selected', each === name);
    panel.element.hidden = each !== name;
  }
  find('#sidebar').hidden = !runs || ['chat', 'remote', 'start'].includes(name);
  panels.get(name)?.panel.show?.();
}

// Runs ----------------------------------------------------------------------------------------------------------------

const shownRuns = () => runs.ids().filter(id => data.has(id)).map(id => ({data: data.get(id), summary: runs.get(id), ...runs.style(id)}));

function redrawAll() {
  curves?.redraw();
  for (const {panel} of panels.values()) if (!panel.element.hidden) panel.refresh?.();
}

async function readRuns() {
  const summaries = (await getJson('/board/runs')).runs;
  for (const run of summaries) if (!data.has(run.id)) data.set(run.id, new RunData(run.id));
  runs.update(summaries);
}
const readRunsSoon = later(() => readRuns().catch(() => undefined), 150);

function sayLive(state) {
  const sign = find('#live');
  sign.className = `live ${state}`;
  sign.textContent = say(`live_${state}`);
}

async function addRuns() {
  runs = new Runs(() => { live.follow(runs.ids()); redrawAll(); });
  find('#sidebar').append(runs.element);
  curves = new Curves(shownRuns);
  live = new Live({
    data, changed: id => { redrawAll(); readRunsSoon(id); }, runsChanged: readRunsSoon, said: sayLive});
  addPanel('runs', curves);
  addPanel('experts', new Experts(shownRuns));
  addPanel('timeline', new Timeline(shownRuns));
  addPanel('samples', new Samples(shownRuns));
  addPanel('configuration', new Configuration(shownRuns));
  await readRuns();
  if (runs.ids().length === 0) live.follow([]);
}

// Language and theme --------------------------------------------------------------------------------------------------

const THEMES = ['auto', 'light', 'dark'];
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem('trireme-theme', theme);
  find('#theme').textContent = say(`theme_${theme}`);
  redrawAll();
}

function speak(name) {
  setLanguage(name);
  applyWords(document);
  find('#language').textContent = otherLanguage();
  find('#theme').textContent = say(`theme_${document.documentElement.dataset.theme}`);
  runs?.draw();
  curves?.rename();
  for (const {panel} of panels.values()) panel.rename?.();
  if (find('#live').className !== 'live') sayLive(find('#live').className.replace('live ', ''));
}

async function start() {
  setTheme(THEMES.includes(localStorage.getItem('trireme-theme')) ? localStorage.getItem('trireme-theme') : 'auto');
  find('#theme').onclick = () => setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % 3]);
  find('#language').onclick = () => speak(language() === 'en' ? 'zh' : 'en');
  matchMedia('(prefers-color-scheme: dark)').onchange = redrawAll;
  applyWords(document);
  const about = await getJson('/board/about');
  if (about.chat) addPanel('chat', new Chat(about.images));
  if (about.remote) addPanel('remote', new Remote());
  if (about.runs) await addRuns();
  if (about.start) addPanel('start', new Start());
  speak(language());
  window.onhashchange = showTab;
  showTab();
  document.documentElement.dataset.ready = 'yes';
}

start().catch(problem => {
  replace(find('#panels'), make('p', {class: 'problem', text: problem instanceof ApiProblem ? problem.message : `${say('no_server')} (${problem.message})`}));
});
