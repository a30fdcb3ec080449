{
  const byId = (id) => document.getElementById(id), slider = byId("delta");
  const written = [...document.querySelectorAll(".scale li:not(.axis), [data-bound]")].map((element) => {
    const name = element.dataset.bound || element.className;
    const value = element.dataset.bound ? element : element.querySelector(".value");
    return { terms: page.terms[name], value, fill: element.querySelector(".fill"), text: value.textContent };
  }).filter((each) => each.terms);
  const widths = written.map((each) => each.fill && each.fill.style.width);

  function show() {
    const own = Math.abs(slider.valueAsNumber + Math.log10(page.delta)) < 1e-9;
    const delta = own ? page.delta : Number((10 ** -slider.valueAsNumber).toPrecision(3));
    const certified = bounds.at(page.terms.certified, delta), odds = Math.floor((1 + 1e-12) / delta).toLocaleString("en");
    byId("odds").textContent = odds;
    byId("chosen").textContent = delta;
    byId("bound").textContent = bounds.percent(certified);
    byId("digits").textContent = certified.toPrecision(7);
    slider.setAttribute("aria-valuetext", `1 sample in ${odds}: at most ${bounds.percent(certified)}`);
    written.forEach((each, at) => {
      const bound = own ? 0 : bounds.at(each.terms, delta);
      each.value.textContent = own ? each.text : bounds.percent(bound);
      if (each.fill) each.fill.style.width = own ? widths[at] : `${100 * Math.sqrt(bound)}%`;
    });
    document.querySelectorAll(".certified .words").forEach((words) => {
      words.textContent = own ? "at most this, on new data" : `at most this, on new data, at delta = ${delta}`;
    });
  }

  function reset() {
    slider.valueAsNumber = -Math.log10(page.delta);
    show();
  }
  slider.addEventListener("input", show);
  byId("reset").addEventListener("click", reset);
  reset();
}
