/**
 * @file Two operations that TensorFlow.js lacks, as kernels with gradients: RMS norm and rotary position embedding. The recording backend turns
 * each into one ONNX node; other backends compose them from tfjs operations (registerModelKernels).
 */
import * as tf from "@tensorflow/tfjs-core";

/**
 * y = x * r * gain, r = 1 / sqrt(mean(x^2) + epsilon), over the last axis. x [N, D], gain [D].
 * dx = r * (dy * gain) - x * r^3 / D * sum(dy * gain * x); dgain = sum over rows of dy * x * r
 */
export function rmsNorm(x: tf.Tensor2D, gain: tf.Tensor, epsilon: number): tf.Tensor2D {
  const operation = tf.customGrad<tf.Tensor>((...inputs) => {
    const [x_, gain_, save] = inputs as [tf.Tensor, tf.Tensor, tf.GradSaveFunc];
    const [y, r] = tf.engine().runKernel<tf.Tensor[]>("RmsNorm", { x: x_, gain: gain_ }, { epsilon }) as [
      tf.Tensor,
      tf.Tensor,
    ];
    save([x_, gain_, r]);
    return { value: y, gradFunc: (dy, saved) => rmsNormGradient(dy, saved as [tf.Tensor, tf.Tensor, tf.Tensor]) };
  });
  return operation(x, gain) as tf.Tensor2D;
}

/** Computes both sums, over a row and over all rows, as matrix products with dy * x, which takes fewer passes over memory than sums of products. */
function rmsNormGradient(dy: tf.Tensor, [x, gain, r]: [tf.Tensor, tf.Tensor, tf.Tensor]): tf.Tensor[] {
  const [rows, width] = x.shape as [number, number];
  const product = tf.mul(dy, x) as tf.Tensor2D;
  const overlap = tf.matMul(product, tf.reshape(tf.mul(gain, 1 / width), [width, 1]));
  const pull = tf.mul(overlap, tf.mul(r, tf.square(r)));
  const dx = tf.sub(tf.mul(tf.mul(dy, gain), r), tf.mul(x, pull));
  return [dx, tf.reshape(tf.matMul(tf.reshape(r, [1, rows]), product), gain.shape)];
}

/**
 * Rotates each head by its token's position, in Hugging Face's layout: (a, b) -> (a cos - b sin, b cos + a sin) for the two halves of a head.
 * x [B, T, heads * hd]; cos and sin [B, T, hd / 2].
 */
export function rotate(x: tf.Tensor3D, cos: tf.Tensor, sin: tf.Tensor, heads: number): tf.Tensor3D {
  return tf.engine().runKernel<tf.Tensor3D>("Rotate", { x, cos, sin }, { heads });
}

// The transpose of a rotation, scaled or not, has the opposite sine.
tf.registerGradient({
  kernelName: "Rotate",
  inputsToSave: ["cos", "sin"],
  gradFunc: (dy, saved, attributes) => {
    const [cos, sin] = saved as [tf.Tensor, tf.Tensor];
    const none = (tensor: tf.Tensor) => () => tf.zerosLike(tensor);
    return {
      x: () => rotate(dy as tf.Tensor3D, cos, tf.neg(sin), Number(attributes["heads"])),
      cos: none(cos),
      sin: none(sin),
    };
  },
});

/** Makes the two kernels available on a computing backend (`cpu`, `tensorflow`, ...). */
export function registerModelKernels(backendName: string): void {
  if (tf.getKernel("RmsNorm", backendName)) return;
  tf.registerKernel({
    kernelName: "RmsNorm",
    backendName,
    kernelFunc: ({ inputs, attrs }) => {
      const { x, gain } = inputs as { x: tf.Tensor; gain: tf.Tensor };
      const r = tf.rsqrt(tf.add(tf.mean(tf.square(x), -1, true), Number(attrs?.["epsilon"])));
      return [tf.mul(tf.mul(x, r), gain), r];
    },
  });
  tf.registerKernel({
    kernelName: "Rotate",
    backendName,
    kernelFunc: ({ inputs, attrs }) => {
      const { x, cos, sin } = inputs as { x: tf.Tensor3D; cos: tf.Tensor3D; sin: tf.Tensor3D };
      const [batch, tokens, width] = x.shape;
      const [a, b] = tf.split(tf.reshape(x, [batch, tokens, Number(attrs?.["heads"]), -1]), 2, 3) as [
        tf.Tensor,
        tf.Tensor,
      ];
      const [c, s] = [tf.expandDims(cos, 2), tf.expandDims(sin, 2)];
      const halves = [tf.sub(tf.mul(a, c), tf.mul(b, s)), tf.add(tf.mul(b, c), tf.mul(a, s))];
      return tf.reshape(tf.concat(halves, 3), [batch, tokens, width]);
    },
  });
}
