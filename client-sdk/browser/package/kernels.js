// The kernels in WGSL. `Kernel` in client-sdk/src/trainer/accelerator/program.rs says what each computes, and the order
// of its buffers and numbers.

/** Length of the sides of a tile of a product, and threads of a workgroup of all other kernels: as in `plan.rs`. */
const TILE = 16;
const THREADS = 256;

/** Buffers as bindings from 1 on; those with `=` are written. */
function buffers(...names) {
  return names
    .map((name, index) => {
      const [, written, word, type] = /^(=?)(\w+)(?::(\w+))?$/.exec(name);
      const access = written ? "read_write" : "read";
      return `@group(0) @binding(${index + 1}) var<storage, ${access}> ${word}: array<${type ?? "f32"}>;`;
    })
    .join("\n");
}

/** A kernel with a thread for each index below the first number. */
function each(numbers, bound, body) {
  return `
struct Numbers { ${numbers} }
@group(0) @binding(0) var<uniform> numbers: Numbers;
${buffers(...bound)}
@compute @workgroup_size(${THREADS})
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = id.y * groups.x * ${THREADS} + id.x;
  if (index >= numbers.count) { return; }
  ${body}
}`;
}

const WINDOW = `channels: u32, height: u32, width: u32, outputs: u32, window_height: u32, window_width: u32,
  down: u32, across: u32, top: u32, left: u32, out_height: u32, out_width: u32`;

/** A product in tiles, whose factors are expressions of m, n and k. */
function product(bound, left, right, store, { isImage = false, before = "" } = {}) {
  return `
struct Numbers { m: u32, n: u32, k: u32, slice: u32, ${isImage ? WINDOW : ""} }
@group(0) @binding(0) var<uniform> numbers: Numbers;
${buffers(...bound)}
var<workgroup> left_tile: array<f32, ${TILE * TILE}>;
var<workgroup> right_tile: array<f32, ${TILE * TILE}>;
${before}
fn left_value(m: u32, k: u32, end: u32) -> f32 {
  if (m >= numbers.m || k >= end) { return 0.0; }
  ${left}
}
fn right_value(k: u32, n: u32, end: u32) -> f32 {
  if (n >= numbers.n || k >= end) { return 0.0; }
  ${right}
}
@compute @workgroup_size(${TILE}, ${TILE})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) own: vec3u) {
  let m = group.y * ${TILE} + own.y;
  let n = group.x * ${TILE} + own.x;
  let end = min((group.z + 1) * numbers.slice, numbers.k);
  var sum = 0.0;
  for (var start = group.z * numbers.slice; start < end; start += ${TILE}) {
    left_tile[own.y * ${TILE} + own.x] = left_value(m, start + own.x, end);
    right_tile[own.y * ${TILE} + own.x] = right_value(start + own.y, n, end);
    workgroupBarrier();
    for (var k = 0u; k < ${TILE}; k++) {
      sum += left_tile[own.y * ${TILE} + k] * right_tile[k * ${TILE} + own.x];
    }
    workgroupBarrier();
  }
  if (m < numbers.m && n < numbers.n) { ${store} }
}`;
}

const COPY = "product[(group.z * numbers.m + m) * numbers.n + n] = sum;";

/** The value of an image below value `part` of the window at `place`, which counts the windows of all images. */
const WINDOW_VALUE = `
fn window_value(place: u32, part: u32) -> f32 {
  let pixels = numbers.out_height * numbers.out_width;
  let window = numbers.window_height * numbers.window_width;
  let row = place % pixels / numbers.out_width * numbers.down + part % window / numbers.window_width;
  let column = place % numbers.out_width * numbers.across + part % numbers.window_width;
  if (row < numbers.top || column < numbers.left) { return 0.0; }
  let y = row - numbers.top;
  let x = column - numbers.left;
  if (y >= numbers.height || x >= numbers.width) { return 0.0; }
  let plane = place / pixels * numbers.channels + part / window;
  return images[(plane * numbers.height + y) * numbers.width + x];
}`;

/** The gradient by the output that pixel `place` reached through value `part` of a window, which counts those of all
 *  output channels. */
const REACHED_GRADIENT = `
fn reached_gradient(place: u32, part: u32) -> f32 {
  let pixels = numbers.height * numbers.width;
  let window = numbers.window_height * numbers.window_width;
  let row = place % pixels / numbers.width + numbers.top;
  let column = place % numbers.width + numbers.left;
  let window_row = part % window / numbers.window_width;
  let window_column = part % numbers.window_width;
  if (row < window_row || column < window_column) { return 0.0; }
  let from_row = row - window_row;
  let from_column = column - window_column;
  if (from_row % numbers.down != 0 || from_column % numbers.across != 0) { return 0.0; }
  let y = from_row / numbers.down;
  let x = from_column / numbers.across;
  if (y >= numbers.out_height || x >= numbers.out_width) { return 0.0; }
  let plane = place / pixels * numbers.outputs + part / window;
  return gradient[(plane * numbers.out_height + y) * numbers.out_width + x];
}`;

const PIXELS = "let pixels = numbers.out_height * numbers.out_width;";

const COUNT = "count: u32";

function forward(expression) {
  return each(COUNT, ["x", "=y"], `let value = x[index]; y[index] = ${expression};`);
}

function back(expression) {
  return each(COUNT, ["y", "dy", "=dx"], `let value = y[index]; dx[index] = ${expression};`);
}

export const KERNELS = {
  linear: product(
    ["x", "weight", "=y", "bias"],
    "return x[m * numbers.k + k];",
    "return weight[n * numbers.k + k];",
    "y[m * numbers.n + n] = sum + bias[n];",
  ),
  linear_back: product(
    ["dy", "weight", "=dx"],
    "return dy[m * numbers.k + k];",
    "return weight[k * numbers.n + n];",
    "dx[m * numbers.n + n] = sum;",
  ),
  linear_learn: product(["dy", "x", "=product"], "return dy[k * numbers.m + m];", "return x[k * numbers.n + n];", COPY),
  conv: product(
    ["images", "weight", "=y", "bias"],
    "return window_value(m, k);",
    "return weight[n * numbers.k + k];",
    `${PIXELS} y[(m / pixels * numbers.n + n) * pixels + m % pixels] = sum + bias[n];`,
    { isImage: true, before: WINDOW_VALUE },
  ),
  conv_back: product(
    ["gradient", "weight", "=dx"],
    "return reached_gradient(m, k);",
    `let window = numbers.window_height * numbers.window_width;
    return weight[(k / window * numbers.n + n) * window + k % window];`,
    `let pixels = numbers.height * numbers.width;
    dx[(m / pixels * numbers.n + n) * pixels + m % pixels] = sum;`,
    { isImage: true, before: REACHED_GRADIENT },
  ),
  conv_learn: product(
    ["dy", "images", "=product"],
    `${PIXELS} return dy[(k / pixels * numbers.m + m) * pixels + k % pixels];`,
    "return window_value(k, n);",
    COPY,
    { isImage: true, before: WINDOW_VALUE },
  ),
  // A workgroup for each channel.
  bias_learn: `
struct Numbers { rows: u32, channels: u32, pixels: u32 }
@group(0) @binding(0) var<uniform> numbers: Numbers;
${buffers("dy", "=sums")}
var<workgroup> parts: array<f32, ${THREADS}>;
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) own: u32) {
  var sum = 0.0;
  for (var index = own; index < numbers.rows * numbers.pixels; index += ${THREADS}) {
    sum += dy[(index / numbers.pixels * numbers.channels + group.x) * numbers.pixels + index % numbers.pixels];
  }
  parts[own] = sum;
  for (var half = ${THREADS / 2}u; half > 0; half /= 2) {
    workgroupBarrier();
    if (own < half) { parts[own] += parts[own + half]; }
  }
  if (own == 0) { sums[group.x] = parts[0]; }
}`,
  sgd: each(
    `${COUNT}, copies: u32, rate: f32, penalty: f32, momentum: f32, own: f32, share: f32`,
    ["=weights", "gradient", "=velocities"],
    `let weight = weights[index];
  var sum = 0.0;
  for (var copy = 0u; copy < numbers.copies; copy++) { sum += gradient[copy * numbers.count + index]; }
  sum += numbers.penalty * weight;
  let velocity = numbers.momentum * velocities[index] + sum;
  velocities[index] = velocity;
  weights[index] = weight - numbers.rate * (numbers.own * sum + numbers.share * velocity);`,
  ),
  cross_entropy: each(
    `${COUNT}, outputs: u32, share: f32`,
    ["scores", "classes:u32", "=gradient", "=losses"],
    `let first = index * numbers.outputs;
  let true_place = first + classes[index];
  var highest = scores[first];
  for (var place = first; place < first + numbers.outputs; place++) { highest = max(highest, scores[place]); }
  var sum = 0.0;
  for (var place = first; place < first + numbers.outputs; place++) {
    let value = exp(scores[place] - highest);
    gradient[place] = value;
    sum += value;
  }
  losses[index] = log(sum) - (scores[true_place] - highest);
  for (var place = first; place < first + numbers.outputs; place++) { gradient[place] *= numbers.share / sum; }
  gradient[true_place] -= numbers.share;`,
  ),
  max_pool: each(
    `${COUNT}, ${WINDOW}`,
    ["x", "=y", "=places:u32"],
    `${PIXELS}
  let plane = index / pixels * numbers.height * numbers.width;
  let row = index % pixels / numbers.out_width * numbers.down;
  let column = index % numbers.out_width * numbers.across;
  var found = row * numbers.width + column;
  var largest = x[plane + found];
  for (var down = row; down < row + numbers.window_height; down++) {
    for (var across = column; across < column + numbers.window_width; across++) {
      let place = down * numbers.width + across;
      let value = x[plane + place];
      // The first of equal ones, as on the CPU.
      if (value > largest) {
        largest = value;
        found = place;
      }
    }
  }
  y[index] = largest;
  places[index] = found;`,
  ),
  // Each pixel asks the windows above it, so that no two threads write one value.
  max_pool_back: each(
    `${COUNT}, ${WINDOW}`,
    ["dy", "places:u32", "=dx"],
    `let plane = index / (numbers.height * numbers.width) * numbers.out_height * numbers.out_width;
  let own = index % (numbers.height * numbers.width);
  let row = own / numbers.width;
  let column = own % numbers.width;
  // The first window that reaches so far.
  let top = (max(row + 1, numbers.window_height) - numbers.window_height + numbers.down - 1) / numbers.down;
  let left = (max(column + 1, numbers.window_width) - numbers.window_width + numbers.across - 1) / numbers.across;
  var sum = 0.0;
  for (var y = top; y < numbers.out_height && y * numbers.down <= row; y++) {
    for (var x = left; x < numbers.out_width && x * numbers.across <= column; x++) {
      let window = plane + y * numbers.out_width + x;
      if (places[window] == own) { sum += dy[window]; }
    }
  }
  dx[index] = sum;`,
  ),
  relu: forward("select(value, 0.0, value < 0.0)"),
  relu_back: back("select(0.0, dy[index], value > 0.0)"),
  // Where a function has reached its limit, the exponential would overflow.
  tanh: forward("tanh(clamp(value, -20.0, 20.0))"),
  tanh_back: back("dy[index] * (1.0 - value * value)"),
  sigmoid: forward("1.0 / (1.0 + exp(-clamp(value, -80.0, 80.0)))"),
  sigmoid_back: back("dy[index] * value * (1.0 - value)"),
};
