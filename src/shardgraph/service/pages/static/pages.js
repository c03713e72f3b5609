// What the pages do beyond HTML: times in the visitor's time zone, busy buttons, a request's states as they are entered.
"use strict";

const minutes = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const seconds = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const when = new Date(time.dateTime);
    if (!Number.isNaN(when.getTime())) {
      time.textContent = (time.closest(".states") ? seconds : minutes).format(when);
      time.title = time.dateTime;
    }
  }
}

function busyButtons() {
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (!button || event.target.method !== "post") return;
    if (event.target.dataset.sent) { event.preventDefault(); return; } // the form was sent already
    event.target.dataset.sent = "yes";
    button.setAttribute("aria-busy", "true");
    if (button.dataset.busy) button.textContent = button.dataset.busy;
  });
  window.addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
    for (const button of document.querySelectorAll("button[aria-busy]")) button.removeAttribute("aria-busy");
  });
}

// The list item of a state that is entered: the next one ahead with its name, or a new one after the past ones.
function itemOf(list, state, last) {
  let item = [...list.querySelectorAll(".ahead")].find((one) => one.dataset.name === state);
  if (!item) {
    item = document.createElement("li");
    item.dataset.name = state;
    const name = document.createElement("span"), at = document.createElement("span");
    name.className = "name";
    name.textContent = state;
    at.className = "at";
    item.append(name, at);
    list.insertBefore(item, list.querySelector(".ahead"));
  }
  while (item.previousElementSibling?.classList.contains("ahead")) item.previousElementSibling.remove();
  item.className = "now";
  if (last) for (const one of list.querySelectorAll(".ahead")) one.remove();
  return item;
}

function watch(list) {
  const now = document.getElementById("now");
  const stream = new EventSource(list.dataset.events);
  const enter = (event) => {
    const received = JSON.parse(event.data), last = ["done", "failed", "cancelled"].includes(received.state);
    list.querySelector(".now")?.classList.replace("now", "past");
    const item = itemOf(list, received.state, last);
    const time = document.createElement("time");
    time.dateTime = received.time;
    item.querySelector(".at").replaceChildren(time);
    localTimes(item);
    const word = document.createElement("strong");
    word.dataset.state = received.state;
    word.textContent = received.state;
    now.replaceChildren("State: ", word, received.failure ? `: ${received.failure}` : "");
    if (!["received", "instant"].includes(received.state)) document.querySelector("[data-early]")?.remove();
    if (last) {
      stream.close();
      delete list.dataset.events;
      if (received.certificate) document.getElementById("proof").hidden = false;
      if (received.state === "failed") location.reload(); // the server renders what can be done
    }
  };
  for (const state of ["received", "instant", "erasing", "retraining", "verified", "done", "failed", "cancelled"]) {
    stream.addEventListener(state, enter);
  }
  stream.onerror = () => {
    if (stream.readyState === EventSource.CLOSED && list.dataset.events) {
      now.textContent = "The connection was lost. Reload the page to see the current state.";
    }
  };
}

// A slow part of a page is fetched once the page is shown: its form is sent, and the same part of the answer replaces
// it. Without a script it is a button.
async function fetchRest(part) {
  const form = part.querySelector("form"), button = form.querySelector("button");
  button.setAttribute("aria-busy", "true");
  button.textContent = button.dataset.busy;
  const sent = new URLSearchParams(new FormData(form));
  try {
    const answer = await fetch(form.action, { method: "POST", body: sent });
    if (!answer.ok) throw new Error(String(answer.status));
    const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
    localTimes(found);
    part.replaceChildren(...found.childNodes);
    part.removeAttribute("data-rest");
  } catch {
    button.removeAttribute("aria-busy");
    button.textContent = "Failed. Try again";
  }
}

localTimes(document);
busyButtons();
for (const part of document.querySelectorAll("[data-rest]")) fetchRest(part);
for (const list of document.querySelectorAll("ol[data-events]")) watch(list);
document.getElementById("verdict")?.focus({ preventScroll: false });
