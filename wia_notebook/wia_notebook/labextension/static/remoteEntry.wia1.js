// Colours the words of cells that begin with %%wia. A module-federation container written by hand:
// JupyterLab calls init(shareScope), then get("./extension"). The words are those of
// wia_compiler.frontend.vocabulary; tests/notebook/test_notebook_completion.py keeps them equal.
(() => {
  const KEYWORDS =
    "kernel input output inout let return if else for in step while func call br cond_br pattern match rewrite schedule at true false";
  const TYPES = "tensor f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool";
  const any = (words) => words.split(" ").join("|");
  const WORDS = new RegExp(
    [
      "(?<cm>\\/\\/.*|#.*)",
      '(?<st>"(?:[^"\\\\]|\\\\.)*")',
      `(?<![\\w.])(?<kw>${any(KEYWORDS)})(?!\\w)`,
      `(?<![\\w.])(?<ty>(?:\\d+x)*(?:${any(TYPES)}))(?!\\w)`,
      "(?<op>[^\\W\\d]\\w*)(?=\\s*\\()",
      "(?<nu>(?<![\\w.])(?:0[xX][\\da-fA-F]+|\\d[\\d_]*(?:\\.\\d*)?(?:[eE][+-]?\\d+)?))",
    ].join("|"),
    "g",
  );
  const VARIABLES = {
    cm: "--jp-mirror-editor-comment-color",
    st: "--jp-mirror-editor-string-color",
    kw: "--jp-mirror-editor-keyword-color",
    ty: "--jp-mirror-editor-builtin-color",
    op: "--jp-mirror-editor-def-color",
    nu: "--jp-mirror-editor-number-color",
    tx: "--jp-mirror-editor-variable-color",
  };
  let scope;

  // The newest version that the application shares of a package.
  const shared = async (name) => {
    const versions = scope[name];
    const newest = Object.keys(versions)
      .sort((a, b) => a.localeCompare(b, undefined, { numeric: true }))
      .pop();
    return (await versions[newest].get())();
  };

  const plugin = async () => {
    const [codemirror, state, view] = await Promise.all(
      ["@jupyterlab/codemirror", "@codemirror/state", "@codemirror/view"].map(shared),
    );
    const mark = (kind) => view.Decoration.mark({ class: `cm-wia cm-wia-${kind}` });
    const marks = Object.fromEntries(Object.keys(VARIABLES).map((kind) => [kind, mark(kind)]));
    const magic = view.Decoration.line({ class: "cm-wia-magic" });

    // Every piece of a line gets a mark: the Python colours below must not show through.
    const line = (builder, from, text) => {
      let position = 0;
      const plain = (to) => to > position && builder.add(from + position, from + to, marks.tx);
      for (const match of text.matchAll(WORDS)) {
        plain(match.index);
        const kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
        builder.add(from + match.index, from + match.index + match[0].length, marks[kind]);
        position = match.index + match[0].length;
      }
      plain(text.length);
    };
    // Block comments are cut out first, for they may span lines.
    const decorate = (editor) => {
      const builder = new state.RangeSetBuilder();
      const { doc } = editor.state;
      const first = doc.line(1);
      if (!/^%%wia(\s|$)/.test(first.text)) return builder.finish();
      builder.add(first.from, first.from, magic);
      const body = doc.sliceString(Math.min(doc.length, first.to + 1));
      let offset = Math.min(doc.length, first.to + 1);
      for (const piece of body.split(/(\/\*[\s\S]*?(?:\*\/|$))/)) {
        if (piece.startsWith("/*")) builder.add(offset, offset + piece.length, marks.cm);
        else {
          let start = offset;
          for (const text of piece.split("\n")) {
            line(builder, start, text);
            start += text.length + 1;
          }
        }
        offset += piece.length;
      }
      return builder.finish();
    };
    const words = view.ViewPlugin.fromClass(
      class {
        constructor(editor) {
          this.decorations = decorate(editor);
        }
        update(update) {
          if (update.docChanged) this.decorations = decorate(update.view);
        }
      },
      { decorations: (value) => value.decorations },
    );
    const rules = Object.entries(VARIABLES).map(([kind, name]) => [
      `.cm-wia-${kind}, .cm-wia-${kind} *`,
      {
        color: `var(${name}) !important`,
        fontWeight: kind === "kw" ? "bold" : "normal",
        fontStyle: kind === "cm" ? "italic" : "normal",
        textDecoration: "none !important",
      },
    ]);
    const theme = view.EditorView.baseTheme({
      ...Object.fromEntries(rules),
      ".cm-wia-magic": {
        backgroundColor:
          "color-mix(in srgb, var(--jp-mirror-editor-keyword-color) 9%, transparent)",
      },
    });
    return {
      id: "wia-notebook:highlight",
      autoStart: true,
      requires: [codemirror.IEditorExtensionRegistry],
      activate: (_, registry) => {
        registry.addExtension({
          name: "wia-highlight",
          factory: () =>
            codemirror.EditorExtensionRegistry.createImmutableExtension([
              state.Prec.highest(words),
              theme,
            ]),
        });
      },
    };
  };

  (window._JUPYTERLAB = window._JUPYTERLAB || {})["wia-notebook"] = {
    init: async (shareScope) => {
      scope = shareScope;
    },
    get: async () => {
      const made = await plugin();
      return () => ({ __esModule: true, default: made });
    },
  };
})();
