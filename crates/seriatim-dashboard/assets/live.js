// Draws the page anew when the status changes, while somebody looks at it.
"use strict";
const base = document.body.dataset.base;
const sign = document.getElementById("live");
let stale = false;
let drawing = false;

// Neither typing is disturbed, nor typed words taken away, nor an answer that is told only once.
function busy() {
  const at = document.activeElement;
  if (at !== null && ["INPUT", "SELECT", "TEXTAREA"].includes(at.tagName)) { return true; }
  const main = document.getElementById("main");
  const typed = (field) => field.type !== "hidden"
    && (field.value !== field.defaultValue || field.checked !== field.defaultChecked);
  return main.querySelector("[data-still]") !== null || [...main.querySelectorAll("input, textarea")].some(typed);
}

async function draw() {
  if (drawing || busy() || document.hidden) { stale = true; return; }
  drawing = true;
  stale = false;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("main");
      const main = document.getElementById("main");
      if (fresh !== null && fresh.innerHTML !== main.innerHTML) { main.replaceChildren(...fresh.childNodes); }
    }
  } catch { stale = true; } finally { drawing = false; }
  if (stale) { setTimeout(draw, 1000); }
}

let events = null;
function listen() {
  if (events !== null || document.hidden) { return; }
  events = new EventSource(base + "/api/v1/events");
  events.onopen = () => { sign.textContent = "live"; };
  events.onerror = () => { sign.textContent = "not live: trying again"; };
  events.addEventListener("status", draw);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden && events !== null) {
    events.close();
    events = null;
    sign.textContent = "paused";
  } else { listen(); }
});
document.addEventListener("focusout", () => { if (stale) { setTimeout(draw, 200); } });
listen();
