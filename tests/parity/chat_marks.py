"""The chat templates of real tokenizers with {% generation %} put in: transformers reports what an assistant wrote only
where a template marks it, and the real ones do not."""
QWEN_CALL = """{{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}"""
MARKED = {  # pairs of a part of the template and what stands for it
    "qwen2_5": [
        (' or (message.role == "assistant" and not message.tool_calls)', ''),
        (QWEN_CALL, """{{- '<|im_start|>assistant\\n' }}{%- generation %}
        {{- message.content or '' }}"""),
        ("{{- '\\n<tool_call>", "{{- '' if loop.first and not message.content else '\\n' }}{{- '<tool_call>"),
        ("{{- '<|im_end|>\\n' }}\n    {%- elif message.role == \"tool\"",
         "{{- '<|im_end|>\\n' }}{%- endgeneration %}\n    {%- elif message.role == \"tool\""),
    ],
    "qwen3": [
        ("{{- '<|im_start|>' + message.role + '\\n<think>\\n'", "{{- '<think>\\n'"),
        ("{{- '<|im_start|>' + message.role + '\\n' + content }}", "{{- content }}"),
        ("{%- set content = message.content %}", "{{- '<|im_start|>assistant\\n' }}{%- generation %}{%- set content = message.content %}"),
        ("{{- '<|im_end|>\\n' }}\n    {%- elif message.role == \"tool\"",
         "{{- '<|im_end|>\\n' }}{%- endgeneration %}\n    {%- elif message.role == \"tool\""),
    ],
    "llama3_1": [
        ("{{ content }}{% endfor %}", "{% if message['role'] == 'assistant' %}{% set head = '<|start_header_id|>assistant<|end_header_id|>\n\n' %}"
         "{{ head }}{% generation %}{{ content[head|length:] }}{% endgeneration %}{% else %}{{ content }}{% endif %}{% endfor %}"),
    ],
    "deepseek_v3": [
        ("{{'<｜Assistant｜>' + message['content'] + '<｜end▁of▁sentence｜>'}}",
         "{{'<｜Assistant｜>'}}{% generation %}{{ message['content'] + '<｜end▁of▁sentence｜>'}}{% endgeneration %}"),
        ("{{'<｜tool▁outputs▁end｜>' + message['content'] + '<｜end▁of▁sentence｜>'}}",
         "{{'<｜tool▁outputs▁end｜>'}}{% generation %}{{ message['content'] + '<｜end▁of▁sentence｜>'}}{% endgeneration %}"),
    ],
}


def marked(name, source):
    for old, new in MARKED[name]:
        assert old in source, f"{name}: the template lacks {old}"
        source = source.replace(old, new)
    return source
