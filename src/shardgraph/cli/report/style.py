"""The style sheet of the report, for light and dark, narrow and wide screens."""

CSS = """
:root { color-scheme: light dark; --paper:#fbfaf7; --card:#fff; --ink:#1d2126; --soft:#5d6670; --rule:#e3e0d8;
  --accent:#b4540a; --good:#19734a; --track:#eceae3;
  --s0:#4e79a7; --s1:#59a14f; --s2:#9c6ade; --s3:#d4a017; --s4:#2a9d8f; --s5:#e1575a; --s6:#b07aa1; --s7:#8c6d4f; }
@media (prefers-color-scheme: dark) { :root { --paper:#14171a; --card:#1c2024; --ink:#e8e6e1; --soft:#9aa4ad;
  --rule:#30363c; --accent:#ff9d4d; --good:#5ec995; --track:#2a3036;
  --s0:#7fa8d6; --s1:#82c77a; --s2:#b794f6; --s3:#e6bf4a; --s4:#4fc3b5; --s5:#f28b8d; --s6:#d2a5c6; --s7:#c0a184; } }
* { box-sizing: border-box; }
body { margin:0; background:var(--paper); color:var(--ink); font:16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto,
  "DejaVu Sans", sans-serif; -webkit-text-size-adjust:100%; }
main { max-width:960px; margin:0 auto; padding:40px 20px 64px; }
h1 { font-size:clamp(1.7rem, 5vw, 2.5rem); line-height:1.15; letter-spacing:-.02em; margin:0 0 12px;
  text-wrap:balance; }
h2 { font-size:1.15rem; margin:0 0 4px; letter-spacing:-.01em; }
h3 { font-size:.95rem; margin:18px 0 6px; }
p { margin:0 0 12px; } .lead { font-size:1.08rem; color:var(--soft); max-width:62ch; margin-bottom:26px; }
.soft { color:var(--soft); font-size:.93rem; max-width:68ch; }
.figures { display:grid; grid-template-columns:repeat(auto-fit, minmax(148px, 1fr)); gap:12px; margin:0 0 18px; }
.figure, section { background:var(--card); border:1px solid var(--rule); border-radius:14px; }
.figure { padding:14px 16px; } .figure b { display:block; font-size:1.55rem; line-height:1.2; letter-spacing:-.02em;
  font-variant-numeric:tabular-nums; } .figure span { color:var(--soft); font-size:.85rem; }
section { padding:22px 22px 20px; margin:0 0 18px; }
.two { display:grid; grid-template-columns:1fr 1fr; gap:18px; } .two section { margin:0; }
.two { margin:0 0 18px; align-items:start; } .lists { display:grid; grid-template-columns:1fr 1fr; gap:26px; }
code { font-size:.92em; background:var(--track); border-radius:4px; padding:1px 4px; }
.split { display:grid; grid-template-columns:minmax(0, 1.55fr) minmax(0, 1fr); gap:26px; align-items:center; }
svg.graph { width:100%; height:auto; display:block; max-width:560px; margin:0 auto; }
svg text { fill:var(--ink); font-size:12.5px; text-anchor:middle; font-family:inherit;
  paint-order:stroke; stroke:var(--card); stroke-width:4px; stroke-linejoin:round; }
svg text.gone { fill:var(--soft); font-style:italic; }
.card { fill:none; stroke:var(--rule); stroke-width:1.2; } .card.rebuilt { stroke:var(--accent); }
.edge { stroke:var(--soft); stroke-opacity:.45; stroke-width:1.3; } .arrow { fill:var(--soft); fill-opacity:.7; }
.edge.rebuilt { stroke:var(--accent); stroke-opacity:1; stroke-width:1.8; } .arrow-rebuilt { fill:var(--accent); }
.edge.gone { stroke-dasharray:3 4; }
.s0 { --c:var(--s0); } .s1 { --c:var(--s1); } .s2 { --c:var(--s2); } .s3 { --c:var(--s3); }
.s4 { --c:var(--s4); } .s5 { --c:var(--s5); } .s6 { --c:var(--s6); } .s7 { --c:var(--s7); } .mixed { --c:var(--soft); }
.shard { fill:var(--c); } .shard.idle { fill-opacity:.35; }
.shard.missing, .shard.gone { fill:var(--card); stroke:var(--c); stroke-width:1.8; }
.shard.gone { stroke-dasharray:3 3.5; }
.ring { fill:none; stroke:var(--accent); stroke-width:2.4; }
ul.legend { list-style:none; margin:0; padding:0; font-size:.93rem; } ul.legend li { display:flex; gap:10px;
  align-items:center; margin:0 0 7px; } ul.legend svg { width:22px; height:22px; flex:none; }
ul.sources { display:flex; flex-wrap:wrap; gap:2px 16px; margin-top:12px; }
.bar { margin:14px 0 0; } .bar .what { display:flex; justify-content:space-between; gap:12px; font-size:.93rem; }
.bar .what b { font-variant-numeric:tabular-nums; white-space:nowrap; }
.track { height:12px; border-radius:6px; background:var(--track); overflow:hidden; margin-top:4px; }
.fill { height:100%; border-radius:6px; background:var(--soft); min-width:2px; }
.fill.main { background:var(--accent); }
.digest { font:clamp(.68rem, 2.2vw, .86rem)/1.5 ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace;
  overflow-wrap:anywhere; } .equal { color:var(--good); font-weight:600; }
.pictures { display:flex; flex-wrap:wrap; gap:14px; margin:10px 0 12px; } figure { margin:0; width:96px; }
figure img { width:96px; height:96px; border-radius:10px; border:1px solid var(--rule); background:#fff;
  display:block; }
figcaption { font-size:.8rem; color:var(--soft); margin-top:4px; line-height:1.3; overflow-wrap:anywhere; }
ul.words { margin:0; padding-left:1.15em; } ul.words li { margin:0 0 7px; }
dl { display:grid; grid-template-columns:max-content minmax(0, 1fr); gap:4px 18px; margin:8px 0 0; font-size:.93rem; }
dt { color:var(--soft); } dd { margin:0; overflow-wrap:anywhere; }
details { margin-top:10px; } summary { cursor:pointer; font-weight:600; padding:4px 0; }
footer { color:var(--soft); font-size:.85rem; }
@media (max-width:720px) { main { padding:26px 14px 44px; }
  .two, .split, .lists { grid-template-columns:1fr; } section { padding:18px 16px; }
  dl { grid-template-columns:1fr; gap:0; } dd { margin-bottom:8px; } }
@media print { section, .figure { break-inside:avoid; } }
"""
