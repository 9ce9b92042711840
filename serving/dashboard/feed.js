// The live feed: reconnects for ever, resumes where it stopped, and says when all must be fetched anew.
import { ticket } from "./api.js";

export class Feed {
  constructor({ changed, resync, state }) {
    Object.assign(this, { changed, resync, state });
    this.after = null;
    this.wait = 500;
  }

  async start() {
    this.state("wait", "connecting");
    try {
      const query = new URLSearchParams();
      if (this.after !== null) query.set("after", this.after);
      const pass = await ticket();
      if (pass) query.set("ticket", pass);
      const scheme = location.protocol === "https:" ? "wss" : "ws";
      this.socket = new WebSocket(`${scheme}://${location.host}/v1/live?${query}`);
      this.socket.onmessage = (event) => this.take(JSON.parse(event.data));
      this.socket.onclose = () => this.again();
    } catch {
      this.again();
    }
  }

  again() {
    this.state("lost", "reconnecting");
    clearTimeout(this.watchdog);
    setTimeout(() => this.start(), this.wait);
    this.wait = Math.min(this.wait * 1.6, 5000);
  }

  take(message) {
    this.wait = 500;
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.socket.close(), 1000 * 2.5 * (this.heartbeat ?? 15));
    if (message.type === "hello") {
      this.heartbeat = message.heartbeat_s;
      this.state("live", "live");
      if (this.after === null || message.sequence !== this.after) this.resync();
    } else if (message.type === "resync") this.resync();
    else if (message.type === "changes") this.changed(message.changes);
    this.after = message.sequence;
  }
}
