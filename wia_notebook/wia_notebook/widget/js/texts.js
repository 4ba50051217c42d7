import { h } from "./dom.js";

// Long texts stay with Python until they are looked at. `text(owner)` is the text of a stage or
// of a pane, or null while it is on its way.
export function makeTexts(data, ask) {
  const asked = new Set();
  const name = (owner) => owner.name ?? owner.format;
  const text = (owner) => {
    const holder = owner.stage ? data.stages.find((stage) => stage.name === owner.stage) : owner;
    if (holder.later === undefined || holder.text !== undefined) return holder.text;
    if (!asked.has(name(holder))) ask(name(holder));
    asked.add(name(holder));
    return null;
  };
  // Whether the message was for what is on show.
  text.receive = (message) => {
    if (message.target !== data.target) return false;
    const owners = [...data.stages, ...data.assembly].filter(
      (owner) => name(owner) === message.name && owner.later !== undefined,
    );
    for (const owner of owners) owner.text = message.text;
    return owners.length > 0;
  };
  return text;
}

export const onItsWay = (owner) =>
  h(
    "p",
    { class: "wia-empty" },
    `${owner.later ?? owner.count}: the running kernel sends long texts when they are looked at. `,
    "Run the cell again if it has ended.",
  );
