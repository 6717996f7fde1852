// Returns the layout errors of the page as it is drawn now. axe finds other errors.
(() => {
  const found = [];
  const print = matchMedia("print").matches;
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const seen = new Map();

  // paint returns a color of any notation as red, green, blue and opacity.
  function paint(color) {
    if (!seen.has(color)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = color;
      pen.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
      seen.set(color, [r, g, b, a / 255]);
    }
    return seen.get(color);
  }

  const over = (top, ground) => top.slice(0, 3).map((c, i) => c * top[3] + ground[i] * (1 - top[3])).concat(1);

  // ground returns the color behind the contents of an element.
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

  // spoken reports whether an element is for screen readers only.
  const spoken = (element) => {
    for (; element; element = element.parentElement) if (getComputedStyle(element).clipPath === "inset(50%)") return true;
    return false;
  };
  const shown = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !spoken(element);

  function name(element) {
    return `<${element.localName}> ${(element.innerText || element.name || element.id).replace(/\s+/g, " ").slice(0, 40)}`.trim();
  }

  // Fields and buttons: 3 to 1 between their edge and the page around them.
  for (const control of document.querySelectorAll("input:not([type=hidden], [type=checkbox]), textarea, select, button")) {
    if (!shown(control)) continue;
    const reached = contrast(paint(getComputedStyle(control).borderTopColor), ground(control.parentElement));
    if (reached < 3) found.push(`contrast ${reached.toFixed(2)} of the edge of ${name(control)}`);
  }

  // Contents are visible at each width. Paper needs no controls and cannot scroll.
  for (const element of document.querySelectorAll("main :is(h1, h2, h3, p:not(.jump), dl, form, table, article)")) {
    if (!element.closest("[hidden]") && !(print && element.closest("form, nav, .tools")) && element.textContent.trim() && !spoken(element) && !shown(element)) found.push(`${name(element)} is hidden`);
  }

  // clippers returns the ancestors that clip an element. One with an ellipsis marks the cut.
  const clipping = new Map([[document.body, []]]);
  function clippers(element) {
    if (!clipping.has(element)) {
      const { overflow, display, textOverflow } = getComputedStyle(element);
      const own = overflow === "visible" || display === "inline" ? [] :
        [{ element, scrolls: /auto|scroll/.test(overflow), marks: textOverflow === "ellipsis" }];
      clipping.set(element, own.concat(clippers(element.parentElement)));
    }
    return clipping.get(element);
  }

  const common = (a, b) => new DOMRect(Math.max(a.x, b.x), Math.max(a.y, b.y),
    Math.max(0, Math.min(a.right, b.right) - Math.max(a.x, b.x)), Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.y, b.y)));
  const empty = (box) => box.width < 1 || box.height < 1;
  const center = (box) => [box.x + box.width / 2, box.y + box.height / 2];
  const clipped = (box, clips) => clips.reduce((rest, clip) => common(rest, clip.element.getBoundingClientRect()), box);
  const visible = (line) => clipped(line.box(), line.clips);

  // lines are the lines of each visible text.
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  const lines = texts.filter((text) => text.data.trim() && shown(text.parentElement)).flatMap((text) => {
    const element = text.parentElement;
    const words = text.data.trim().replace(/\s+/g, " ").slice(0, 40);
    const range = document.createRange();
    range.selectNodeContents(text);
    return Array.from(range.getClientRects(), (_, n) => ({ text, element, words, clips: clippers(element), box: () => range.getClientRects()[n] }));
  }).filter((line) => !empty(line.box()));

  // No text is drawn over another. The outer quarters of a line's height have few letters.
  const drawn = lines.map((line) => {
    const box = visible(line);
    return { line, box: new DOMRect(box.x + 1, box.y + box.height / 4, box.width - 2, box.height / 2) };
  }).filter(({ box }) => !empty(box)).sort((a, b) => a.box.y - b.box.y);
  drawn.forEach((one, n) => {
    for (let m = n + 1; m < drawn.length && drawn[m].box.y < one.box.bottom; m++) {
      const other = drawn[m];
      const halves = other.line.text === one.line.text && one.line.clips.some((clip) => clip.marks); // before and behind an ellipsis
      if (!halves && !empty(common(one.box, other.box))) found.push(`${one.line.words} is drawn over ${other.line.words}`);
    }
  });
  for (const cell of document.querySelectorAll("td[data-label]")) {
    const label = getComputedStyle(cell, "::before");
    if (label.position === "absolute" && parseFloat(label.height) > cell.clientHeight) found.push(`the label of ${name(cell)} is taller than the cell`);
  }

  // bring scrolls to a line.
  function bring(line) {
    for (const { element, scrolls } of line.clips) {
      if (!scrolls) continue;
      const [x, y] = center(line.box());
      const [left, top] = center(element.getBoundingClientRect());
      element.scrollBy(x - left, y - top);
    }
    const [x, y] = center(visible(line));
    if (x < 1 || x > innerWidth - 1 || y < 1 || y > innerHeight - 1) scrollBy(x - innerWidth / 2, y - innerHeight / 2);
  }

  // The center of each line shows the line itself or its ellipsis.
  for (const line of lines) {
    bring(line);
    const own = line.box();
    const box = clipped(own, line.clips);
    const marks = line.clips.filter((clip) => clip.marks).map((clip) => clip.element);
    const soft = line.clips.findIndex((clip) => clip.marks || clip.scrolls);
    const rest = clipped(own, soft < 0 ? line.clips : line.clips.slice(0, soft));
    const partial = rest.width < own.width - 2 || rest.height < own.height / 2;
    if (partial || (empty(box) && !marks.length)) found.push(`${line.words} is cut off`);
    if (empty(box)) continue;
    const at = document.elementFromPoint(...center(box));
    if (at !== line.element && !marks.includes(at)) found.push(`${line.words} is covered by ${at ? name(at) : "the edge of the window"}`);
  }
  scrollTo(0, 0);

  if (document.documentElement.scrollWidth > innerWidth) {
    const widest = [...document.querySelectorAll("body *")].sort((a, b) => b.getBoundingClientRect().right - a.getBoundingClientRect().right)[0];
    found.push(`it is wider than the window, with ${name(widest)}`);
  }
  if (print) {
    for (const element of document.querySelectorAll("nav, button, form:not([method=post])")) {
      if (shown(element)) found.push(`${name(element)} is printed`);
    }
    for (const element of document.querySelectorAll("pre")) {
      if (element.scrollHeight > element.clientHeight + 1 || element.scrollWidth > element.clientWidth + 1) found.push(`${name(element)} is printed in part`);
    }
  }
  if (!document.title.includes(" · ")) found.push("its title does not name the site");
  const known = new Set();
  for (const { id } of document.querySelectorAll("[id]")) {
    if (known.has(id)) found.push(`two elements have the id ${id}`);
    known.add(id);
  }
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    if (!known.has(link.hash.slice(1))) found.push(`${name(link)} leads nowhere`);
  }
  return found;
})()
