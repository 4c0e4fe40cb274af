// Starts the dashboard.

import { render } from "preact";
import { App, takeToken } from "./app";
import "./styles/index.css";
import { applyTheme, savedTheme } from "./theme";

applyTheme(savedTheme());
takeToken();
render(<App />, document.getElementById("app")!);
