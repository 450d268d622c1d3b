"""Requantizes the matrices of a GGUF file, the embedding included, to Q4_0 or Q8_0. Vectors are float32; metadata is copied, except the file type.

    python requantize.py <from.gguf> <Q4_0 or Q8_0> <to.gguf>          (needs gguf)

llama.cpp's own tool leaves a tied embedding at 6 bits in a Q4_0 file. Here it has 4, which is faster.
"""
import sys

import gguf

source, kind, target = sys.argv[1:]
quantization = gguf.GGMLQuantizationType[kind]
reader = gguf.GGUFReader(source)
architecture = reader.get_field(gguf.Keys.General.ARCHITECTURE).contents()
writer = gguf.GGUFWriter(target, architecture)
WRITTEN_ELSEWHERE = (gguf.Keys.General.ARCHITECTURE, gguf.Keys.General.FILE_TYPE)
for field in reader.fields.values():
    if field.name in WRITTEN_ELSEWHERE or field.name.startswith("GGUF."):
        continue
    kinds = field.types
    writer.add_key_value(field.name, field.contents(), kinds[0], sub_type=kinds[-1] if kinds[0] == gguf.GGUFValueType.ARRAY else None)
writer.add_file_type(gguf.LlamaFileType[f"MOSTLY_{kind}"])
for tensor in reader.tensors:
    weights = gguf.dequantize(tensor.data, tensor.tensor_type).reshape([int(n) for n in reversed(tensor.shape)])
    if weights.ndim == 1:
        writer.add_tensor(tensor.name, weights, raw_dtype=gguf.GGMLQuantizationType.F32)
    else:
        writer.add_tensor(tensor.name, gguf.quantize(weights, quantization), raw_dtype=quantization)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
