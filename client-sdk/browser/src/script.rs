//! What `package/worker.js` gives to the SDK.

use js_sys::{Array, Float32Array, Uint8Array, Uint32Array};
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

#[wasm_bindgen]
extern "C" {
    /// The browser, as the worker's script wraps it.
    #[derive(Clone, Debug)]
    pub type Browser;

    /// Begins a request. `headers` has names and values in turn; GET and HEAD have no body.
    #[wasm_bindgen(method)]
    pub(crate) fn request(
        this: &Browser,
        method: &str,
        url: &str,
        headers: Array,
        body: Option<Uint8Array>,
    ) -> BrowserRequest;

    /// Every stored entry: names and bytes in turn.
    #[wasm_bindgen(method)]
    pub(crate) fn entries(this: &Browser) -> Array;

    /// Stores an entry, or removes it. Changes are stored in their order.
    #[wasm_bindgen(method)]
    pub(crate) fn change(this: &Browser, name: &str, bytes: Option<Uint8Array>);

    /// Completes when all changes so far are on the disk.
    #[wasm_bindgen(method, catch)]
    pub(crate) async fn stored(this: &Browser) -> Result<JsValue, JsValue>;

    /// Completes after this time.
    #[wasm_bindgen(method)]
    pub(crate) async fn sleep(this: &Browser, ms: f64);

    /// Tells the page what happens, as JSON. It returns at once, within a computation too.
    #[wasm_bindgen(method)]
    pub(crate) fn progress(this: &Browser, event: &str);

    /// One request.
    pub(crate) type BrowserRequest;

    /// The response's status, then names and values of its headers in turn.
    #[wasm_bindgen(method, catch)]
    pub(crate) async fn head(this: &BrowserRequest) -> Result<JsValue, JsValue>;

    /// The next bytes of its body; `undefined` at its end.
    #[wasm_bindgen(method, catch)]
    pub(crate) async fn piece(this: &BrowserRequest) -> Result<JsValue, JsValue>;

    /// Gives it up.
    #[wasm_bindgen(method)]
    pub(crate) fn abort(this: &BrowserRequest);

    /// The GPU that the client's setting asks for, if there is one.
    #[wasm_bindgen(method)]
    pub(crate) fn gpu(this: &Browser) -> Option<Gpu>;

    /// WebGPU, as `package/gpu.js` wraps it.
    #[derive(Clone, Debug)]
    pub(crate) type Gpu;

    /// Begins a training with a program, as JSON, and the model's values.
    #[wasm_bindgen(method, catch)]
    pub(crate) async fn begin(this: &Gpu, program: &str, values: Float32Array) -> Result<JsValue, JsValue>;

    /// Trains on batches of these sizes. The losses of their examples.
    #[wasm_bindgen(method, catch)]
    pub(crate) async fn steps(
        this: &Gpu,
        batches: Uint32Array,
        inputs: Float32Array,
        classes: Uint32Array,
    ) -> Result<JsValue, JsValue>;

    /// The values of the parameters.
    #[wasm_bindgen(method, catch)]
    pub(crate) async fn values(this: &Gpu) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    pub(crate) fn performance_now() -> f64;

    #[wasm_bindgen(js_namespace = console, js_name = error)]
    pub(crate) fn console_error(text: &str);
}
