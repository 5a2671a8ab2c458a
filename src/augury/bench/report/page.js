// A method's key, pressed, hides its lines in all charts of the experiment; under the pointer, it shows them alone.
for (const section of document.querySelectorAll("section")) {
  const lines = (test) => [...section.querySelectorAll(".chart [data-m]")].filter(test);
  for (const key of section.querySelectorAll(".key")) {
    const method = key.dataset.m;
    const mine = (line) => line.dataset.m === method;
    key.addEventListener("click", () => {
      const shown = key.getAttribute("aria-pressed") === "false";
      for (const same of section.querySelectorAll(`.key[data-m="${method}"]`)) same.setAttribute("aria-pressed", shown);
      for (const line of lines(mine)) line.classList.toggle("gone", !shown);
    });
    key.addEventListener("pointerenter", () => lines((line) => !mine(line)).forEach((line) => line.classList.add("faint")));
    key.addEventListener("pointerleave", () => lines(() => true).forEach((line) => line.classList.remove("faint")));
  }
}
