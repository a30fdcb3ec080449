document.querySelectorAll(".term").forEach((term) => {
  for (const event of ["pointerenter", "focusin"]) term.addEventListener(event, () => term.classList.remove("closed"));
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") document.querySelectorAll(".term").forEach((term) => term.classList.add("closed"));
});
document.querySelectorAll("[data-copies]").forEach((button) => {
  button.addEventListener("click", () => {
    getSelection().selectAllChildren(document.getElementById(button.dataset.copies));
    button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl-C";
  });
});
