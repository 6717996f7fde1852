// Shows what is found while one types. The answer to an earlier letter is dropped.
const field = document.querySelector("[name=q]");
const status = document.querySelector("[role=status]");
const results = document.querySelector("#results");
let last;

field.addEventListener("input", async () => {
  last?.abort();
  last = new AbortController();
  try {
    const answer = await fetch("/search?" + new URLSearchParams({ q: field.value }), { signal: last.signal });
    const { hits, permitted, error } = await answer.json();
    results.replaceChildren(...hits.map(item));
    const found = hits.length + " found" + (permitted ? " of the brands that your clinic may order" : "");
    status.textContent = error ? "That cannot be searched for: it " + error.reason + "." : field.value.trim() && found;
  } catch (failure) {
    if (failure.name !== "AbortError") status.textContent = "The search cannot be reached at the moment.";
  }
});

function item({ variant_id, name, brand, sku }) {
  const link = Object.assign(document.createElement("a"), { href: "/variants/" + encodeURIComponent(variant_id), textContent: name });
  const li = document.createElement("li");
  li.append(link, ", " + brand + ", " + sku);
  return li;
}
