class Tuner { int best; };
struct Config { int tile; };
template <typename T> T twice(T x) { return x + x; }
namespace tools { float half(float x) { return x / 2; } }
typedef float real;
