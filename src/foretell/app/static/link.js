// One WebSocket that comes back: it says where the page was, so that nothing is lost or said twice.

const FIRST = 250, LONGEST = 5000, PING = 10_000, PATIENCE = 6000;

export class Link extends EventTarget {
  #socket = null; #wait = FIRST; #ping = 0; #late = 0; #over = false;
  session = sessionStorage.getItem("foretell-session"); seen = 0; open = false;

  constructor() { super(); this.#connect(); }

  send(message) {
    if (!this.open) return false;
    this.#socket.send(JSON.stringify(message));
    return true;
  }

  sendSound(buffer) {
    if (this.open && this.#socket.bufferedAmount < 1 << 20) this.#socket.send(buffer);
  }

  #connect() {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`);
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    const hasty = setTimeout(() => socket.close(), PATIENCE);
    socket.onopen = () => socket.send(JSON.stringify(this.session ? { kind: "hello", session: this.session, seen: this.seen } : { kind: "hello" }));
    socket.onmessage = ({ data }) => {
      clearTimeout(this.#late);
      if (typeof data !== "string") { this.#tell("sound", data); return; }
      const message = JSON.parse(data);
      if (message.n > this.seen) this.seen = message.n;
      else if (message.again) return;
      if (message.kind === "welcome") {
        clearTimeout(hasty);
        this.open = true; this.#wait = FIRST;
        const before = this.session;
        this.session = message.session;
        if (!message.back) this.seen = 0;
        sessionStorage.setItem("foretell-session", message.session);
        this.#tell("welcome", { ...message, anew: Boolean(before) && !message.back });
        this.#ping = setInterval(() => this.#check(), PING);
        return;
      }
      this.#tell("message", message);
    };
    socket.onclose = ({ code, reason }) => {
      clearTimeout(hasty); clearTimeout(this.#late); clearInterval(this.#ping);
      this.open = false;
      if (code === 4001 && reason === "opened elsewhere") this.#over = true;
      this.#tell("away", { reason, over: this.#over });
      if (this.#over) return;
      setTimeout(() => this.#connect(), this.#wait);
      this.#wait = Math.min(this.#wait * 1.8, LONGEST);
    };
  }

  #check() {
    this.send({ kind: "ping" });
    this.#late = setTimeout(() => this.#socket.close(), PATIENCE);
  }

  #tell(kind, detail) { this.dispatchEvent(new CustomEvent(kind, { detail })); }
}
