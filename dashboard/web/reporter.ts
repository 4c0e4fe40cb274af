// Ends a run with the line that cargo's tests end with, so that one script can add up both.

import type { Reporter, TestModule } from "vitest/node";

export default class CargoLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const states = modules.flatMap((module) => [...module.children.allTests()].map((test) => test.result().state));
    const of = (state: string) => states.filter((each) => each === state).length;
    // Failures that belong to no test: a file that does not load, an error outside tests, a run without tests.
    const untold =
      errors.length + modules.reduce((sum, module) => sum + module.errors().length, 0) + (states.length === 0 ? 1 : 0);
    const failed = of("failed") + untold;
    console.log(
      `test result: ${failed > 0 ? "FAILED" : "ok"}. ` +
        `${of("passed")} passed; ${failed} failed; ${of("skipped")} ignored`,
    );
  }
}
