// What a page does not do for people, as a list of sentences. The page is looked at
// as it stands: its colours, its width, what is unfolded.
(() => {
  const found = [];
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const seen = new Map();

  // paint is a colour of any notation as red, green, blue and opacity.
  function paint(colour) {
    if (!seen.has(colour)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
      seen.set(colour, [r, g, b, a / 255]);
    }
    return seen.get(colour);
  }

  const over = (top, ground) => top.slice(0, 3).map((c, i) => c * top[3] + ground[i] * (1 - top[3])).concat(1);

  // ground is the colour behind the contents of an element.
  const grounds = new Map([[null, paint(matchMedia("(prefers-color-scheme: dark)").matches ? "#121212" : "#ffffff")]]);
  function ground(element) {
    if (!grounds.has(element)) {
      const own = paint(getComputedStyle(element).backgroundColor);
      grounds.set(element, own[3] === 1 ? own : over(own, ground(element.parentElement)));
    }
    return grounds.get(element);
  }

  // Relative luminance and contrast as in WCAG 2.2.
  function luminance([r, g, b]) {
    const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  }

  function contrast(one, other) {
    const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  }

  const shown = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest(".hide, .skip, .first");

  function name(element) {
    return `<${element.localName}> ${(element.innerText || element.name || element.id).slice(0, 40)}`.trim();
  }

  // Texts: 4.5 to 1, and 3 to 1 where they are large.
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const element = text.parentElement;
    if (!text.data.trim() || !shown(element)) continue;
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const wanted = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    const reached = contrast(over(paint(style.color), ground(element)), ground(element));
    if (reached < wanted) found.push(`contrast ${reached.toFixed(2)} of ${name(element)}`);
  }

  // Fields and buttons: 3 to 1 between their edge and what is around them, and what is
  // typed as any text.
  for (const control of document.querySelectorAll("input:not([type=hidden], [type=checkbox]), textarea, select, button")) {
    if (!shown(control)) continue;
    const reached = contrast(paint(getComputedStyle(control).borderTopColor), ground(control.parentElement));
    if (reached < 3) found.push(`contrast ${reached.toFixed(2)} of the edge of ${name(control)}`);
    const typed = contrast(paint(getComputedStyle(control).color), ground(control));
    if (typed < 4.5) found.push(`contrast ${typed.toFixed(2)} of what is typed into ${name(control)}`);
  }

  if (document.documentElement.scrollWidth > innerWidth) {
    const widest = [...document.querySelectorAll("body *")].sort((a, b) => b.getBoundingClientRect().right - a.getBoundingClientRect().right)[0];
    found.push(`it is wider than the window, with ${name(widest)}`);
  }
  if (document.documentElement.lang !== "en") found.push("it has no language");
  if (!document.title.includes(" · ")) found.push("it has no title");
  if (document.querySelectorAll("h1").length !== 1) found.push("it has not just one main heading");
  let level = 1;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    if (heading.localName[1] > level + 1) found.push(`heading ${name(heading)} skips a level`);
    level = +heading.localName[1];
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  const known = new Set();
  for (const id of ids) {
    if (known.has(id)) found.push(`two elements have the id ${id}`);
    known.add(id);
  }
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    if (!known.has(link.hash.slice(1))) found.push(`${name(link)} leads nowhere`);
  }
  return found;
})()
