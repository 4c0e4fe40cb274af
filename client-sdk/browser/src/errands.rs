//! What the SDK asks of the browser, and the task that does it.

use std::pin::pin;

use bytes::Bytes;
use futures_channel::{mpsc, oneshot};
use futures_util::future::{Either, select};
use futures_util::{FutureExt, StreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use js_sys::{Array, Float32Array, Uint8Array, Uint32Array};
use tributary_client::trainer::Work;
use tributary_client::transport::{Request, Response, TransportError};
use wasm_bindgen::{JsCast, JsValue};

use crate::script::{Browser, BrowserRequest, Gpu};

/// Something that only the browser's own thread can do.
#[derive(Debug)]
pub(crate) enum Errand {
    /// Sends a request. All earlier changes of entries are stored first, so that the client still has after a crash
    /// what the request says.
    Send {
        request: Request,
        answer: oneshot::Sender<Result<Response, TransportError>>,
    },
    /// Stores an entry, or removes it.
    Change {
        name: String,
        bytes: Option<Vec<u8>>,
    },
    Sleep {
        ms: f64,
        over: oneshot::Sender<()>,
    },
    /// Computes on the GPU.
    Compute {
        work: Work,
        answer: oneshot::Sender<Result<Vec<f32>, String>>,
    },
}

/// Where errands are left. Clones lead to the same task.
#[derive(Clone, Debug)]
pub(crate) struct Errands(mpsc::UnboundedSender<Errand>);

impl Errands {
    /// Starts the task that does them, in their order, until the last clone is dropped.
    pub(crate) fn of(browser: Browser) -> Self {
        let (errands, mut left) = mpsc::unbounded();
        wasm_bindgen_futures::spawn_local(async move {
            while let Some(errand) = left.next().await {
                begin(&browser, errand);
            }
        });
        Self(errands)
    }

    /// Leaves an errand. The task ends only after all who could leave one.
    pub(crate) fn leave(&self, errand: Errand) {
        let _ = self.0.unbounded_send(errand);
    }
}

fn begin(browser: &Browser, errand: Errand) {
    match errand {
        Errand::Change { name, bytes } => browser.change(&name, bytes.as_deref().map(Uint8Array::from)),
        Errand::Sleep { ms, over } => {
            let browser = browser.clone();
            wasm_bindgen_futures::spawn_local(async move {
                browser.sleep(ms).await;
                let _ = over.send(());
            });
        }
        Errand::Compute { work, answer } => {
            let gpu = browser.gpu();
            wasm_bindgen_futures::spawn_local(async move {
                let computed = match gpu {
                    Some(gpu) => compute(&gpu, work).await.map_err(|error| words(&error)),
                    None => Err("there is none".to_owned()),
                };
                let _ = answer.send(computed);
            });
        }
        Errand::Send { request, answer } => {
            let browser = browser.clone();
            wasm_bindgen_futures::spawn_local(async move { send(&browser, request, answer).await });
        }
    }
}

async fn compute(gpu: &Gpu, work: Work) -> Result<Vec<f32>, JsValue> {
    let values = match work {
        Work::Begin { program, values } => {
            // A program has strings and numbers only.
            let program = serde_json::to_string(&program).unwrap_or_default();
            gpu.begin(&program, Float32Array::from(values.as_slice())).await?;
            return Ok(Vec::new());
        }
        Work::Steps { batches, inputs, classes } => {
            let batches: Vec<u32> = batches.into_iter().map(|examples| examples as u32).collect();
            let [batches, classes] = [batches, classes].map(|values| Uint32Array::from(values.as_slice()));
            gpu.steps(batches, Float32Array::from(inputs.as_slice()), classes).await?
        }
        Work::Values => gpu.values().await?,
    };
    Ok(Float32Array::from(values).to_vec())
}

async fn send(browser: &Browser, request: Request, mut answer: oneshot::Sender<Result<Response, TransportError>>) {
    if let Err(error) = browser.stored().await {
        let text = format!("nothing is sent, because the state cannot be stored: {}", words(&error));
        let _ = answer.send(Err(TransportError::Failed(text)));
        return;
    }
    let headers = Array::new();
    for (name, value) in &request.headers {
        // The SDK's own headers are visible ASCII.
        headers.push(&name.as_str().into());
        headers.push(&value.to_str().unwrap_or_default().into());
    }
    let body = (!request.body.is_empty()).then(|| Uint8Array::from(request.body.as_ref()));
    let call = browser.request(request.method.as_str(), &request.url, headers, body);
    let head = {
        let head = pin!(call.head());
        match select(head, answer.cancellation()).await {
            Either::Left((head, _)) => Some(head),
            Either::Right(_) => None,
        }
    };
    let Some(head) = head else {
        call.abort();
        return;
    };
    let (pieces, body) = mpsc::unbounded();
    let response = head.map_err(|error| failed(&error)).and_then(|head| {
        let (status, headers) = read_head(&head.unchecked_into())?;
        Ok(Response { status, headers, body: body.boxed() })
    });
    let has_body = response.is_ok();
    if answer.send(response).is_err() || !has_body {
        call.abort();
        return;
    }
    hand_over(&call, &pieces).await;
}

/// Hands the pieces of a body over until it ends, breaks off, or nobody reads it any more.
async fn hand_over(call: &BrowserRequest, pieces: &mpsc::UnboundedSender<Result<Bytes, TransportError>>) {
    loop {
        let piece = match call.piece().await {
            Ok(end) if end.is_undefined() => return,
            Ok(piece) => Ok(Bytes::from(Uint8Array::new(&piece).to_vec())),
            Err(error) => Err(failed(&error)),
        };
        let ends = piece.is_err();
        if pieces.unbounded_send(piece).is_err() || ends {
            call.abort();
            return;
        }
    }
}

fn read_head(head: &Array) -> Result<(StatusCode, HeaderMap), TransportError> {
    let status = head.get(0).as_f64().and_then(|status| StatusCode::from_u16(status as u16).ok());
    let status = status.ok_or_else(|| TransportError::Failed("the browser gives no status".into()))?;
    let texts: Vec<String> = head.iter().skip(1).filter_map(|text| text.as_string()).collect();
    let mut headers = HeaderMap::new();
    for pair in texts.as_chunks().0 {
        let [name, value] = pair;
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.as_str())) {
            headers.append(name, value);
        }
    }
    Ok((status, headers))
}

fn failed(error: &JsValue) -> TransportError {
    TransportError::Failed(words(error))
}

/// What a value that was thrown says.
pub(crate) fn words(thrown: &JsValue) -> String {
    let message = thrown.dyn_ref::<js_sys::Error>().map(|error| String::from(error.message()));
    message.or_else(|| thrown.as_string()).unwrap_or_else(|| format!("{thrown:?}"))
}

/// Waits for an answer whose sender the task may have dropped with the page.
pub(crate) async fn answered<T>(answer: oneshot::Receiver<T>) -> Option<T> {
    answer.map(Result::ok).await
}
