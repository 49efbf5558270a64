// Plays the pieces of an answer one after another, and says when the last one is over.

export class Player {
  #context = null; #next = 0; #playing = new Set(); #turn = null; #ended = false; #done;

  constructor(done) { this.#done = done; }

  get on() { return this.#turn !== null; }

  take(buffer) {
    const [turn, rate] = new Uint32Array(buffer.slice(0, 8));
    if (turn !== this.#turn) { this.stop(); this.#turn = turn; this.#ended = false; }
    if (buffer.byteLength === 8) { this.#ended = true; this.#check(); return; }
    this.#context ??= new AudioContext();
    if (this.#context.state === "suspended") this.#context.resume();
    const samples = Float32Array.from(new Int16Array(buffer, 8), (s) => s / 32768);
    const sound = this.#context.createBuffer(1, samples.length, rate);
    sound.copyToChannel(samples, 0);
    const source = this.#context.createBufferSource();
    source.buffer = sound;
    source.connect(this.#context.destination);
    this.#next = Math.max(this.#next, this.#context.currentTime + 0.03);
    source.start(this.#next);
    this.#next += sound.duration;
    this.#playing.add(source);
    source.onended = () => { this.#playing.delete(source); this.#check(); };
  }

  stop() {
    for (const source of this.#playing) { source.onended = null; source.stop(); }
    this.#playing.clear();
    this.#turn = null; this.#next = 0;
  }

  #check() {
    if (this.#turn === null || !this.#ended || this.#playing.size) return;
    const turn = this.#turn;
    this.stop();
    this.#done(turn);
  }
}
