// Filters the answers. Everything that a model wrote becomes a text node, never markup.
const PAGE = 20;
const form = document.getElementById("filter");
const list = document.getElementById("items");
const more = document.getElementById("more");
const count = document.getElementById("count");
let data, found = [], shown = 0;

async function unpack() {
  const bytes = Uint8Array.from(atob(document.getElementById("packed").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function offer(name, names, values) {
  names.forEach((own, place) => form.elements[name].add(new Option(own, values ? values[place] : place)));
}

// An item: [seed, split, family, depth, prompt, gold, said]; said: [[answer, correct, reason, [[arm, organelle]]]].
function fits([seed, split, family, , prompt, , said], asked) {
  const has = (arm, correct) => said.some((own) => own[1] === correct && own[3].some(([other]) => other === arm));
  return (asked.split === "" || split === +asked.split)
    && (asked.family === "" || family === +asked.family)
    && (asked.seed === "" || seed === +asked.seed)
    && (asked.right === "" || has(+asked.right, 1))
    && (asked.wrong === "" || has(+asked.wrong, 0))
    && (asked.text === "" || prompt.toLowerCase().includes(asked.text)
      || said.some((own) => own[0].toLowerCase().includes(asked.text)));
}

function card([seed, split, family, depth, prompt, gold, said]) {
  const made = element("article");
  made.append(element("p", `${data.splits[split]} · ${data.families[family]}, ${data.depths[depth]} · seed ${seed}`, "where"));
  made.append(element("pre", prompt, "prompt"));
  if (gold !== null) made.append(element("p", "Right answer: ", "gold"));
  if (gold !== null) made.lastChild.append(element("code", gold));
  const table = element("ul", undefined, "said");
  for (const [answer, correct, reason, arms] of said) {
    const row = element("li", undefined, correct ? "right" : "wrong");
    const verdict = correct ? "✓ right" : `✗ ${reason || "wrong"}`;
    row.append(element("span", verdict, "verdict"), element("code", answer || "(nothing)"));
    const names = element("span", undefined, "arms");
    for (const [arm, organelle] of arms) {
      const who = data.arms[arm] === "frozen" ? "" : organelle === -2 ? " host with examples" : organelle < 0 ? " host" : ` #${organelle}`;
      names.append(element("span", data.arms[arm] + who, "arm"), " ");
    }
    row.append(names);
    table.append(row);
  }
  made.append(table);
  return made;
}

function showMore() {
  const next = found.slice(shown, shown + PAGE).map(card);
  list.append(...next);
  shown += next.length;
  more.hidden = shown >= found.length;
  count.textContent = `${found.length} of ${data.items.length} items, ${shown} shown`;
  return next;
}

function filter() {
  const asked = Object.fromEntries(new FormData(form));
  asked.text = asked.text.trim().toLowerCase();
  found = data.items.filter((item) => fits(item, asked));
  shown = 0;
  list.replaceChildren();
  showMore();
}

data = await unpack();
offer("split", data.splits);
offer("family", data.families);
offer("seed", data.seeds, data.seeds);
offer("right", data.arms);
offer("wrong", data.arms);
form.addEventListener("input", filter);
form.addEventListener("reset", () => setTimeout(filter)); // fields are reset after the event
form.addEventListener("submit", (event) => event.preventDefault());
more.addEventListener("click", () => {
  const [first] = showMore();
  first.tabIndex = -1;
  first.focus({ preventScroll: true });
});
filter();
