// Draws each plot in the face that the reader prefers, and again when that changes. Expressions are interpreted
// (`ast`): the page's policy forbids to compile them.
const plots = JSON.parse(document.getElementById("plots").textContent);
const faces = JSON.parse(document.getElementById("faces").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const drawn = new Map();

async function draw(place) {
  drawn.get(place)?.finalize();
  const options = {
    actions: false, ast: true, renderer: "svg", tooltip: { theme: dark.matches ? "dark" : "light" },
    config: dark.matches ? faces.dark : faces.light,
  };
  drawn.set(place, await vegaEmbed(place, plots[place.dataset.plot], options));
}

async function drawAll() {
  for (const place of document.querySelectorAll("[data-plot]")) await draw(place);
  document.documentElement.dataset.drawn = String(drawn.size);
}

dark.addEventListener("change", drawAll);
drawAll();
