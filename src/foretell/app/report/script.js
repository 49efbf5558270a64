"use strict";
(() => {
  const show = (v) => {
    const size = Math.abs(v);
    if (v !== 0 && (size < 1e-3 || size >= 1e6)) return v.toExponential(2);
    return String(Number(v.toPrecision(4)));
  };
  const mix = (a, b, s, log) => (log ? a * Math.pow(b / a, s) : a + (b - a) * s);

  for (const area of document.querySelectorAll(".area[data-ranges]")) {
    const [x0, x1, y0, y1] = area.dataset.ranges.split(" ").map(Number);
    const [logX, logY] = [...area.dataset.log].map((c) => c === "1");
    let lines = null, hair = null, tip = null;
    const read = () => [...area.querySelectorAll("path[data-read]")].map((path) => {
      const xs = [], ys = [];
      for (const part of path.getAttribute("d").split("M").slice(1)) {
        const n = part.split(/[ h]/).map(Number);
        for (let i = 0; i + 1 < n.length; i += 2) { xs.push(n[i]); ys.push(n[i + 1]); }
      }
      return { label: path.dataset.read, xs, ys };
    });
    const leave = () => { if (hair) { hair.remove(); tip.remove(); hair = tip = null; } };
    area.addEventListener("pointerleave", leave);
    area.addEventListener("pointermove", (event) => {
      lines = lines || read();
      if (!lines.length) return;
      const box = area.getBoundingClientRect();
      const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      if (!hair) {
        hair = area.appendChild(document.createElement("div")); hair.className = "hair";
        tip = area.appendChild(document.createElement("div")); tip.className = "tip";
      }
      hair.style.left = `${100 * share}%`;
      const rows = [`${area.dataset.xlabel || "x"}: ${show(mix(x0, x1, share, logX))}`];
      for (const { label, xs, ys } of lines) {
        let low = 0, high = xs.length - 1;
        while (high - low > 1) { const m = (low + high) >> 1; if (xs[m] < 1000 * share) low = m; else high = m; }
        const near = Math.abs(xs[low] - 1000 * share) < Math.abs(xs[high] - 1000 * share) ? low : high;
        if (Math.abs(xs[near] - 1000 * share) < 20) rows.push(`${label}: ${show(mix(y0, y1, 1 - ys[near] / 1000, logY))}`);
      }
      tip.replaceChildren(...rows.flatMap((row, i) => (i ? [document.createElement("br"), row] : [row])));
      if (share > 0.5) { tip.style.right = `${100 * (1 - share) + 1}%`; tip.style.left = "auto"; }
      else { tip.style.left = `${100 * share + 1}%`; tip.style.right = "auto"; }
    });
  }

  const canvas = document.getElementById("space"), source = document.getElementById("space-data");
  if (canvas && source) {
    const scene = JSON.parse(source.textContent), pen = canvas.getContext("2d");
    let yaw = -0.7, pitch = 0.42, size = 0;
    const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const project = ([x, y, z]) => {
      const a = x * Math.cos(yaw) - y * Math.sin(yaw), b = x * Math.sin(yaw) + y * Math.cos(yaw);
      const depth = b * Math.cos(pitch) - z * Math.sin(pitch), up = b * Math.sin(pitch) + z * Math.cos(pitch);
      const scale = size * 0.285 * (1 - 0.12 * depth);
      return [size / 2 + a * scale, size * 0.47 - up * scale];
    };
    const trace = (states, width, style, alpha) => {
      pen.globalAlpha = alpha; pen.strokeStyle = style; pen.lineWidth = width; pen.beginPath();
      states.forEach((s, i) => { const [x, y] = project(s); if (i) pen.lineTo(x, y); else pen.moveTo(x, y); });
      pen.stroke(); pen.globalAlpha = 1;
    };
    const draw = () => {
      const ratio = window.devicePixelRatio || 1;
      size = canvas.clientWidth;
      canvas.width = canvas.height = Math.round(size * ratio);
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.lineJoin = pen.lineCap = "round";
      const soft = colour("--soft"), paper = colour("--wash");
      pen.font = "12px system-ui, sans-serif"; pen.fillStyle = soft;
      [[1.25, -1, -1], [-1, 1.25, -1], [-1, -1, 1.25]].forEach((end, i) => {
        trace([[-1, -1, -1], end], 1, soft, 0.5);
        const [x, y] = project(end.map((v) => (v > 1 ? 1.34 : v)));
        pen.textAlign = x < size / 2 - 4 ? "right" : x > size / 2 + 4 ? "left" : "center";
        const half = pen.measureText(scene.names[i]).width;
        if (pen.textAlign === "left" && x + half > size - 4) pen.textAlign = "right";
        if (pen.textAlign === "right" && x - half < 4) pen.textAlign = "left";
        pen.fillText(scene.names[i], Math.min(size - 4, Math.max(4, x)), y + 4);
      });
      pen.fillStyle = colour("--data"); pen.globalAlpha = 0.5;
      for (const s of scene.data) { const [x, y] = project(s); pen.fillRect(x - 0.9, y - 0.9, 1.8, 1.8); }
      pen.globalAlpha = 1;
      trace(scene.run, 0.9, colour("--model"), 0.75);
      for (const { region, states } of scene.cycles) trace(states, 3.2, colour(`--r${region}`), 1);
      for (const { stable, state } of scene.equilibria) {
        const [x, y] = project(state);
        pen.beginPath(); pen.arc(x, y, 5.5, 0, 7); pen.lineWidth = 2.5;
        pen.strokeStyle = colour("--eq"); pen.fillStyle = stable ? colour("--eq") : paper;
        pen.fill(); pen.stroke();
      }
    };
    let held = null;
    canvas.addEventListener("pointerdown", (e) => { held = [e.clientX, e.clientY]; canvas.setPointerCapture(e.pointerId); canvas.style.cursor = "grabbing"; });
    canvas.addEventListener("pointermove", (e) => {
      if (!held) return;
      yaw += (e.clientX - held[0]) * 0.01; pitch = Math.max(-1.5, Math.min(1.5, pitch + (e.clientY - held[1]) * 0.01));
      held = [e.clientX, e.clientY]; draw();
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { held = null; canvas.style.cursor = "grab"; });
    canvas.addEventListener("keydown", (e) => {
      const turn = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[e.key];
      if (!turn) return;
      e.preventDefault(); yaw += turn[0]; pitch = Math.max(-1.5, Math.min(1.5, pitch + turn[1])); draw();
    });
    new ResizeObserver(draw).observe(canvas);
    for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", draw);
    draw();
  }

  for (const button of document.querySelectorAll(".copy button")) {
    if (!navigator.clipboard) { button.remove(); continue; }
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
      button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
})();
