// In the audio thread: 40 ms of the microphone at a time, as 16 bit samples, with their level.

class Pieces extends AudioWorkletProcessor {
  constructor() {
    super();
    this.piece = new Int16Array(Math.round(sampleRate * 0.04));
    this.at = 0; this.power = 0;
  }

  process([input]) {
    const samples = input[0];
    if (!samples) return true;
    for (const sample of samples) {
      const s = Math.max(-1, Math.min(1, sample));
      this.power += s * s;
      this.piece[this.at++] = s < 0 ? s * 32768 : s * 32767;
      if (this.at === this.piece.length) {
        const whole = this.piece.slice();
        this.port.postMessage({ pcm: whole.buffer, level: Math.sqrt(this.power / this.at) }, [whole.buffer]);
        this.at = 0; this.power = 0;
      }
    }
    return true;
  }
}

registerProcessor("pieces", Pieces);
