// Searches the names and tasks on this page. Without it the page lists all of them.
(() => {
  const field = document.getElementById("q");
  const found = document.getElementById("found");
  const results = document.getElementById("results");
  const all = document.getElementById("all");
  const letters = document.querySelectorAll("#contents, .jump"); // which lead into all
  const most = 100;

  const entries = [...all.querySelectorAll("li")].map((item) => ({
    item,
    name: item.querySelector("a").textContent.toLowerCase(),
    text: (item.textContent + " " + (item.dataset.also ?? "")).toLowerCase(),
  }));

  // rank is 0 for what is not found, and more for what is nearer to the query.
  function rank(entry, query, words) {
    if (entry.name === query || entry.name.endsWith("." + query)) return 4;
    if (entry.name.includes("." + query) || entry.name.startsWith(query)) return 3;
    if (words.every((word) => entry.name.includes(word))) return 2;
    return words.every((word) => entry.text.includes(word)) ? 1 : 0;
  }

  function search() {
    const query = field.value.trim().toLowerCase();
    const words = query.split(/\s+/);
    const hits = query ? entries.map((entry) => [rank(entry, query, words), entry.item]).filter(([rank]) => rank > 0) : [];
    hits.sort(([a], [b]) => b - a); // stable: by the alphabet where the rank is the same
    results.replaceChildren(...hits.slice(0, most).map(([, item]) => item.cloneNode(true)));
    results.hidden = !query;
    for (const part of [all, ...letters]) part.hidden = Boolean(query);
    found.textContent = !query ? "" : hits.length > most ? `The first ${most} of ${hits.length}` : `${hits.length} found`;
  }

  field.value = new URLSearchParams(location.search).get("q") ?? "";
  field.addEventListener("input", search);
  search();
})();
