// The device's key by java.security, which Android's key store implements: tests run this file on the JVM.

package tributary.android

import java.security.GeneralSecurityException
import java.security.KeyPair
import java.security.PublicKey
import java.security.Signature
import tributary.CallbackException
import tributary.KeyStore

/** Bytes of an uncompressed point on P-256. */
private const val POINT_BYTES = 65

/** Signs with a key pair on P-256. The private key may live in hardware: only signatures are asked of it. */
class PairKeys(private val pair: () -> KeyPair) : KeyStore {
    override fun publicKey(): ByteArray = guarded { pointOf(pair().public) }

    override fun sign(message: ByteArray): ByteArray = guarded {
        Signature.getInstance("SHA256withECDSA").run {
            initSign(pair().private)
            update(message)
            sign()
        }
    }

    private fun guarded(work: () -> ByteArray): ByteArray = try {
        work()
    } catch (failure: GeneralSecurityException) {
        throw CallbackException.Failed(failure.toString())
    }
}

/** The point of a key: the end of its SubjectPublicKeyInfo (RFC 5480). */
fun pointOf(key: PublicKey): ByteArray {
    val point = key.encoded?.takeLast(POINT_BYTES)?.toByteArray() ?: ByteArray(0)
    if (point.size != POINT_BYTES || point[0] != 4.toByte()) throw CallbackException.Failed("no key on P-256")
    return point
}
