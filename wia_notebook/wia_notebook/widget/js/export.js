import { h } from "./dom.js";

const KINDS = { svg: "SVG", dot: "DOT", json: "JSON", html: "report.html" };

// Each export is made by Python, so that files are the same as from `explorer.save(…)`.
export function exportButtons(view) {
  return h(
    "span",
    { class: "exports" },
    "export: ",
    Object.entries(KINDS).map(([format, title]) =>
      h(
        "button",
        {
          type: "button",
          class: "link",
          "data-export": format,
          onclick: () => view.send({ type: "export", format, stage: view.store.stage }),
        },
        title,
      ),
    ),
  );
}

export function receiveFile(message) {
  if (message?.type !== "file") return;
  const url = URL.createObjectURL(new Blob([message.text], { type: message.mime }));
  const link = h("a", { href: url, download: message.name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
