/* test/e2e/layout.js: looks at the page in the frame.  Writes what is wrong: what overflows, or is broken inside a word.  A word
 * of more than LONGEST letters may be broken anywhere, a shorter one behind a hyphen. */
const LONGEST = 20;
const frame = document.querySelector("iframe"), wrong = document.getElementById("wrong");

function look() {
        const page = frame.contentDocument, width = frame.contentWindow.innerWidth, found = [];
        let words = 0;

        if (page.documentElement.scrollWidth > width)
                found.push(`the page has ${page.documentElement.scrollWidth} px`);
        for (const each of page.body.querySelectorAll("*")) {
                const box = each.getBoundingClientRect(), text = each.textContent.slice(0, 30);

                if (box.width > 0 && (box.right > width + 1 || box.left < -1))
                        found.push(`outside: ${each.tagName} ${text}`);
                if (each.clientWidth > 0 && each.tagName !== "INPUT" && each.scrollWidth > each.clientWidth)
                        found.push(`overflows: ${each.tagName} ${text}`);
        }
        const texts = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
                const node = texts.currentNode, range = page.createRange();

                if (node.parentElement.closest("script,style"))
                        continue;
                for (const word of node.data.matchAll(/\S+/g)) {
                        if (word[0].length > LONGEST)
                                continue;
                        words++;
                        for (const part of word[0].matchAll(/[^-]+/g)) {
                                range.setStart(node, word.index + part.index);
                                range.setEnd(node, word.index + part.index + part[0].length);
                                if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1)
                                        found.push(`broken: ${part[0]}`);
                        }
                }
        }
        const said = found.length ? "wrong: " + found.join("; ") : "all is well";
        wrong.textContent = `looked at ${words} words of ${width} px; ${said}`;
}

if (frame.contentDocument.readyState === "complete" && frame.contentDocument.body.children.length)
        look();
else
        frame.addEventListener("load", look);
