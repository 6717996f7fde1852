// Shows products while a practitioner types. The response to an earlier letter is dropped.
const field = document.querySelector("[name=q]");
const status = document.querySelector("[role=status]");
const results = document.querySelector(".products");
let last;

field.addEventListener("input", async () => {
  last?.abort();
  last = new AbortController();
  try {
    const response = await fetch("/search?" + new URLSearchParams({ q: field.value }), { signal: last.signal });
    const { hits, permitted, error } = await response.json();
    results.replaceChildren(...hits.map(item));
    const found = hits.length + " found" + (permitted ? " of the brands that your clinic may order" : "");
    status.textContent = error ? "Type a few words only." : field.value.trim() && found;
  } catch (failure) {
    if (failure.name !== "AbortError") status.textContent = "The search cannot be reached. Please try again.";
  }
});

function item({ variant_id, name, brand, sku, status }) {
  const link = Object.assign(document.createElement("a"), {
    href: "/catalog/" + encodeURIComponent(variant_id) + "?" + new URLSearchParams({ q: field.value }), textContent: name,
  });
  const small = Object.assign(document.createElement("small"), { textContent: brand + ", " + sku });
  const state = Object.assign(document.createElement("span"), { textContent: status });
  const li = document.createElement("li");
  li.append(link, small, state);
  return li;
}
