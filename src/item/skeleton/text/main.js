#!/usr/bin/env node
@header@const { who } = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify({ greeting: `Hello, ${who}!` }));
