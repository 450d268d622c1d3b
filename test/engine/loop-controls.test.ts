/**
 * @file Chat templates with {% break %} or {% continue %}: a template is refused if such a tag may come after text of its iteration, since the
 * renderer would drop that text. All others render.
 */
import { Template } from "@huggingface/jinja";
import { expect, test } from "vitest";
import { openTemplate, TokenizerConfig } from "../../engine/tokenizer/chat-template.ts";

const ROLES = ["system", "user", "assistant"] as const;
const MESSAGES = ROLES.map((role) => ({ role, content: role }));
const loop = (body: string) => `{% for m in messages %}${body}{% endfor %}`;
const open = (body: string) => openTemplate(new Map(), TokenizerConfig.parse({ chat_template: loop(body) }));

test.each([
  ["continue", "<{{ m.role }}>{% if m.role == 'user' %}{% continue %}{% endif %}!"],
  ["break", "<{{ m.role }}>{% if m.role == 'user' %}{% break %}{% endif %}"],
  ["continue", "{% if m.role == 'user' %}{{ m.content }}{% endif %}{% if loop.last %}{% continue %}{% endif %}"],
  ["continue", "{% for n in messages %}{{ n.role }}{% continue %}{% endfor %}"],
  ["break", "{% for n in messages %}{{ n.role }}{% endfor %}{% break %}"],
  ["continue", "{% macro f() %}{% for n in messages %}x{% continue %}{% endfor %}{% endmacro %}{{ f() }}"],
  ["break", "{% filter upper %}x{% break %}{% endfilter %}"],
])("a %s that may come after text of its iteration is refused: %s", (tag, body) => {
  expect(() => open(body)).toThrow(
    expect.objectContaining({
      code: "tokenizer-damaged",
      message: expect.stringMatching(`^tokenizer_config.json: chat_template has {% ${tag} %} after text`) as string,
    }),
  );
});

test.each([
  ["{% if m.role == 'user' %}{% continue %}{% endif %}{{ m.role }} ", "system assistant "],
  ["{% if m.role == 'user' %}{% break %}{% endif %}{{ m.role }} ", "system "],
  ["{% if m.role == 'user' %}{{ m.role }}{% else %}{% continue %}{% endif %}.", "user."],
  ["{% set x = m.role %}{# skip #}{% if x == 'user' %}{% continue %}{% endif %}{{ x }} ", "system assistant "],
  ["{% if not m.role %}{{ raise_exception('no') }}{% endif %}{% if m.role != 'user' %}{% continue %}{% endif %}u", "u"],
  [
    "{{ m.role }}{% for n in messages %}{% if n.role != m.role %}{% continue %}{% endif %}!{% endfor %} ",
    "system! user! assistant! ",
  ],
])("%s is rendered as in Jinja", (body, text) => {
  expect(open(body).render(MESSAGES, [], false)).toBe(text);
});

test("the renderer still drops such text: once it does not, nothing needs to be refused", () => {
  const template = new Template(loop("<{{ m.role }}>{% continue %}"));
  expect(template.render({ messages: MESSAGES })).toBe("");
});
