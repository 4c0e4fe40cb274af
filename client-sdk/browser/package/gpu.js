// WebGPU, as the SDK's trainer uses it: it runs programs of kernels and reads what they have computed.

import { KERNELS } from "./kernels.js";

/** The buffers of `Program` in client-sdk/src/trainer/accelerator/program.rs that are not the network's own. */
const INPUTS = 0;
const CLASSES = 1;
const LOSSES = 2;
/** Bytes of the numbers of a dispatch: at most 16. */
const NUMBERS_BYTES = 64;
/** Kinds of errors. */
const KINDS = ["validation", "out-of-memory", "internal"];

export class Gpu {
  #device;
  #pipelines = new Map();
  #buffers = [];
  #parameters = [];
  #steps = new Map();
  #before = Promise.resolve();

  constructor(device) {
    this.#device = device;
  }

  /**
   * The GPU for a client's setting `device`; `undefined` if it is to train on the CPU. `auto` takes no adapter that
   * computes on the CPU itself; `gpu` takes whichever the browser gives.
   */
  static async open(device) {
    if (device !== "auto" && device !== "gpu") return undefined;
    let reason = "the browser gives none";
    try {
      const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
      // Browsers before 2025 have it beside `info`.
      const isSoftware = adapter?.info?.isFallbackAdapter ?? adapter?.isFallbackAdapter;
      if (adapter && (device === "gpu" || !isSoftware)) return new Gpu(await adapter.requestDevice());
    } catch (error) {
      reason = error.message;
    }
    if (device === "auto") return undefined;
    throw Object.assign(new Error(`there is no GPU (WebGPU): ${reason}`), { kind: "setup" });
  }

  /** Begins a training: `Work::Begin`. */
  begin(program, values) {
    const { buffers, parameters, steps } = JSON.parse(program);
    return this.#checked(async () => {
      this.#release();
      const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
      this.#buffers = buffers.map((length) => this.#device.createBuffer({ size: Math.max(length, 1) * 4, usage }));
      this.#parameters = parameters.map((index) => this.#buffers[index]);
      let start = 0;
      for (const buffer of this.#parameters) {
        const end = start + buffer.size / 4;
        this.#device.queue.writeBuffer(buffer, 0, values, start, end - start);
        start = end;
      }
      const bound = steps.map(async ({ examples, dispatches }) => {
        this.#steps.set(examples, await Promise.all(dispatches.map((dispatch) => this.#bound(dispatch))));
      });
      await Promise.all(bound);
    });
  }

  /** Trains on one batch after the other: `Work::Steps`. */
  steps(batches, inputs, classes) {
    const width = inputs.length / classes.length;
    return this.#checked(async () => {
      const staged = [this.#staged(inputs), this.#staged(classes)];
      const losses = this.#readable(classes.length * 4);
      const commands = this.#device.createCommandEncoder();
      let start = 0;
      for (const examples of batches) {
        commands.copyBufferToBuffer(staged[0], start * width * 4, this.#buffers[INPUTS], 0, examples * width * 4);
        commands.copyBufferToBuffer(staged[1], start * 4, this.#buffers[CLASSES], 0, examples * 4);
        const pass = commands.beginComputePass();
        for (const { pipeline, group, groups } of this.#steps.get(examples)) {
          pass.setPipeline(pipeline);
          pass.setBindGroup(0, group);
          pass.dispatchWorkgroups(...groups);
        }
        pass.end();
        commands.copyBufferToBuffer(this.#buffers[LOSSES], 0, losses, start * 4, examples * 4);
        start += examples;
      }
      this.#device.queue.submit([commands.finish()]);
      const read = await this.#read(losses);
      for (const buffer of staged) buffer.destroy();
      return read;
    });
  }

  /** Ends a training with the values of all parameters: `Work::Values`. */
  values() {
    return this.#checked(async () => {
      const values = this.#readable(this.#parameters.reduce((sum, { size }) => sum + size, 0));
      const commands = this.#device.createCommandEncoder();
      let start = 0;
      for (const buffer of this.#parameters) {
        commands.copyBufferToBuffer(buffer, 0, values, start, buffer.size);
        start += buffer.size;
      }
      this.#device.queue.submit([commands.finish()]);
      const read = await this.#read(values);
      this.#release();
      return read;
    });
  }

  /** Gives the memory of a training back. */
  #release() {
    for (const buffer of this.#buffers) buffer.destroy();
    this.#buffers = [];
    this.#steps.clear();
  }

  /** A dispatch with its pipeline and what it is bound to. */
  async #bound({ kernel, buffers, numbers, groups }) {
    const pipeline = await this.#pipeline(kernel);
    const uniform = this.#device.createBuffer({
      size: NUMBERS_BYTES,
      usage: GPUBufferUsage.UNIFORM,
      mappedAtCreation: true,
    });
    new Uint32Array(uniform.getMappedRange()).set(numbers);
    uniform.unmap();
    const bound = [uniform, ...buffers.map((index) => this.#buffers[index])];
    const entries = bound.map((buffer, binding) => ({ binding, resource: { buffer } }));
    const group = this.#device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
    return { pipeline, group, groups };
  }

  #pipeline(kernel) {
    if (!this.#pipelines.has(kernel)) {
      const module = this.#device.createShaderModule({ code: KERNELS[kernel], label: kernel });
      const compute = { module, entryPoint: "main" };
      this.#pipelines.set(kernel, this.#device.createComputePipelineAsync({ layout: "auto", compute, label: kernel }));
    }
    return this.#pipelines.get(kernel);
  }

  /** A buffer with these values, to be copied from. */
  #staged(values) {
    const usage = GPUBufferUsage.COPY_SRC;
    const buffer = this.#device.createBuffer({ size: values.byteLength, usage, mappedAtCreation: true });
    new values.constructor(buffer.getMappedRange()).set(values);
    buffer.unmap();
    return buffer;
  }

  #readable(size) {
    return this.#device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  }

  async #read(buffer) {
    await buffer.mapAsync(GPUMapMode.READ);
    const values = new Float32Array(buffer.getMappedRange()).slice();
    buffer.destroy();
    return values;
  }

  /**
   * What the work gives, after all work before it. WebGPU reports most errors to nobody else, and computes on with
   * zeros.
   */
  #checked(work) {
    const result = this.#before.then(async () => {
      for (const kind of KINDS) this.#device.pushErrorScope(kind);
      const [done] = await Promise.allSettled([work()]);
      const scopes = await Promise.allSettled(KINDS.map(() => this.#device.popErrorScope()));
      const error = scopes.map(({ value, reason }) => value ?? reason).find((error) => error);
      if (error) throw error;
      if (done.status === "rejected") throw done.reason;
      return done.value;
    });
    this.#before = result.catch(() => {});
    return result;
  }
}
