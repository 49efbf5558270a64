// The microphone: asked for when it is first needed, and let go of when it is not.

const WORDS = {
  NotAllowedError: "The microphone was not allowed. Allow it for this page (the symbol beside the address), or type.",
  NotFoundError: "There is no microphone. Plug one in, or type.",
  NotReadableError: "Another program uses the microphone. Close it, or type.",
};

export class Microphone extends EventTarget {
  #context = null; #stream = null; #wanted = false;

  get on() { return this.#wanted; }

  async start() {
    if (this.#wanted) return;
    this.#wanted = true;
    try {
      if (!navigator.mediaDevices) {
        throw new Error("Browsers give the microphone to https and localhost only. Open the page there, or type.");
      }
      const stream = await navigator.mediaDevices.getUserMedia({
        audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true },
      });
      if (!this.#wanted) { stream.getTracks().forEach((t) => t.stop()); return; }
      this.#stream = stream;
      this.#context = new AudioContext();
      if (this.#context.sampleRate > 48000) {
        this.#context.close();
        this.#context = new AudioContext({ sampleRate: 48000 });
      }
      await this.#context.audioWorklet.addModule("/static/worklet.js");
      const node = new AudioWorkletNode(this.#context, "pieces", { numberOfOutputs: 0 });
      this.#tell("began", { rate: this.#context.sampleRate });
      node.port.onmessage = ({ data }) => { if (this.#wanted) this.#tell("piece", data); };
      this.#context.createMediaStreamSource(stream).connect(node);
      stream.getTracks()[0].onended = () => { this.#tell("failed", "The microphone went away."); this.stop(); };
    } catch (error) {
      this.stop();
      this.#tell("failed", WORDS[error.name] || error.message);
    }
  }

  stop() {
    if (!this.#wanted) return;
    this.#wanted = false;
    this.#stream?.getTracks().forEach((track) => { track.onended = null; track.stop(); });
    this.#context?.close();
    this.#stream = this.#context = null;
    this.#tell("ended");
  }

  #tell(kind, detail) { this.dispatchEvent(new CustomEvent(kind, { detail })); }
}
