// Numbers for drawing: ticks, short texts, smoothing, thinning. Pure functions.

export function short(value) {
  if (!Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2).replace('e+', 'e');
  if (size >= 1000) return value.toLocaleString('en', {maximumFractionDigits: size >= 1e5 ? 0 : 1});
  return String(Number(value.toPrecision(5)));
}

export function clock(seconds) {
  if (!Number.isFinite(seconds)) return '–';
  const whole = Math.round(seconds), hours = Math.floor(whole / 3600), minutes = Math.floor(whole / 60) % 60;
  const two = number => String(number).padStart(2, '0');
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

// About `count` round numbers between low and high.
export function ticks(low, high, count) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map(each => each * power).find(each => each >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) found.push(Number((i * step).toPrecision(12)));
  return found;
}

// Texts of ticks, with as many digits as tell them apart.
export function labels(values) {
  const differ = texts => new Set(texts).size === texts.length;
  const plain = values.map(short);
  for (let digits = 3; digits < 12 && !differ(plain); ++digits) {
    const longer = values.map(value => Number(value.toPrecision(digits)).toString());
    if (differ(longer)) return longer;
  }
  return plain;
}

export function logTicks(low, high) {
  const found = [];
  const decades = Math.log10(high / low);
  const digits = decades > 4 ? [1] : decades > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power) {
    for (const digit of digits) {
      const value = Number((digit * 10 ** power).toPrecision(12));
      if (value >= low && value <= high) found.push(value);
    }
  }
  return found.length > 1 ? found : ticks(low, high, 4);
}

// An exponential mean, corrected for its start; values that are not there are passed over.
export function smoothed(column, rows, weight) {
  const result = new Float64Array(rows);
  let sum = 0, norm = 0;
  for (let i = 0; i < rows; ++i) {
    const value = column.get(i);
    if (Number.isNaN(value)) {
      result[i] = NaN;
      continue;
    }
    sum = weight * sum + (1 - weight) * value;
    norm = weight * norm + (1 - weight);
    result[i] = sum / norm;
  }
  return result;
}

// Points of a line, at most two for each pixel column: the least and the greatest, so that spikes stay. `x` and `y` give
// coordinates of a row; rows without a value (NaN) are left out.
export function thinned(from, to, x, y) {
  const points = [];
  let column = NaN, first = null, last = null;
  const flush = () => {
    if (!first) return;
    const [a, b] = first.row <= last.row ? [first, last] : [last, first];
    points.push([a.x, a.y]);
    if (a.row !== b.row) points.push([b.x, b.y]);
  };
  for (let row = from; row < to; ++row) {
    const height = y(row);
    if (Number.isNaN(height)) continue;
    const place = x(row), here = Math.floor(place);
    if (here !== column) {
      flush();
      column = here;
      first = last = {row, x: place, y: height};
      continue;
    }
    if (height < first.y) first = {row, x: place, y: height};
    if (height >= last.y) last = {row, x: place, y: height};
  }
  flush();
  return points;
}

export const path = points => points.map(([x, y], i) => `${i ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');
