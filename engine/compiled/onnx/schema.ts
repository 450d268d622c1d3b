/**
 * @file The part of the ONNX protobuf schema that our graphs use (onnx.proto3; field numbers are ONNX's). Weights are graph inputs or external
 * data.
 */
import protobuf from "protobufjs";

const field = (type: string, id: number) => ({ type, id });
const repeated = (type: string, id: number) => ({ rule: "repeated" as const, type, id });

export const onnx = protobuf.Root.fromJSON({
  nested: {
    ModelProto: {
      fields: {
        irVersion: field("int64", 1),
        opsetImport: repeated("OperatorSetIdProto", 8),
        producerName: field("string", 2),
        graph: field("GraphProto", 7),
      },
    },
    OperatorSetIdProto: { fields: { domain: field("string", 1), version: field("int64", 2) } },
    GraphProto: {
      fields: {
        node: repeated("NodeProto", 1),
        name: field("string", 2),
        initializer: repeated("TensorProto", 5),
        input: repeated("ValueInfoProto", 11),
        output: repeated("ValueInfoProto", 12),
        valueInfo: repeated("ValueInfoProto", 13),
      },
    },
    NodeProto: {
      fields: {
        input: repeated("string", 1),
        output: repeated("string", 2),
        name: field("string", 3),
        opType: field("string", 4),
        attribute: repeated("AttributeProto", 5),
        domain: field("string", 7),
      },
    },
    AttributeProto: {
      fields: {
        name: field("string", 1),
        f: field("float", 2),
        i: field("int64", 3),
        g: field("GraphProto", 6),
        ints: repeated("int64", 8),
        type: field("int32", 20),
      },
    },
    TensorProto: {
      fields: {
        dims: repeated("int64", 1),
        dataType: field("int32", 2),
        name: field("string", 8),
        rawData: field("bytes", 9),
        externalData: repeated("StringStringEntryProto", 13),
        dataLocation: field("int32", 14),
      },
    },
    StringStringEntryProto: { fields: { key: field("string", 1), value: field("string", 2) } },
    ValueInfoProto: { fields: { name: field("string", 1), type: field("TypeProto", 2) } },
    TypeProto: {
      fields: { tensorType: field("Tensor", 1) },
      nested: { Tensor: { fields: { elemType: field("int32", 1), shape: field("TensorShapeProto", 2) } } },
    },
    TensorShapeProto: {
      fields: { dim: repeated("Dimension", 1) },
      nested: {
        Dimension: {
          oneofs: { value: { oneof: ["dimValue", "dimParam"] } },
          fields: { dimValue: field("int64", 1), dimParam: field("string", 2) },
        },
      },
    },
  },
});
